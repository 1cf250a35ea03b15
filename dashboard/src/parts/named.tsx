// Words of a filter that stand for a job: a part of its name is enough.
import type { ComponentChildren } from "preact";
import { enc, get } from "../lib/api";
import { split, withPart } from "../lib/filter";
import { useLoad } from "../lib/load";
import { setParams } from "../lib/route";
import type { JobList, Problem } from "../types";
import { typedFilter } from "./filterbox";
import { Empty, ProblemBox, Skeleton, Time } from "./ui";

const NAMED = 20;
type Answer = JobList & { words: string };

/** Under a list that knows no job of this name: those that were deleted, each by its id. */
export function Deleted({ name, problem }: { name: string | undefined; problem: Problem | null }) {
  const isAsked = !!name && problem?.status === 404;
  const loaded = useLoad<JobList>(isAsked ? `/jobs?status=CANCELLED&limit=${NAMED}&q=${enc(name)}` : "");
  const jobs = isAsked ? (loaded.data.value?.jobs ?? []).filter((job) => job.name === name) : [];
  if (!jobs.length) return null;
  return <Empty title={`${jobs.length === 1 ? "A job" : `${jobs.length} jobs`} of this name ${jobs.length === 1 ? "was" : "were"} deleted. Look at what is left of it?`}><div class="row">{jobs.map((job) => <button key={job.job_id} type="button" class="chip" onClick={() => setParams({ f: withPart(typedFilter.value, "job", job.job_id) })}>{job.name}, changed last <Time at={job.updated_at} /></button>)}</div></Empty>;
}

/** The job that has the words in its name. The list is of one job or of all: where several have them, the reader picks. */
export function useNamed(words: string): { id: string; instead: ComponentChildren } {
  const loaded = useLoad<Answer>(words ? `/jobs?limit=${NAMED}&q=${enc(words)}` : "", {}, async (path, signal) => ({ words, ...(await get<JobList>(path, signal)) }));
  if (!words) return { id: "", instead: null };
  if (loaded.problem.value) return { id: "", instead: <ProblemBox problem={loaded.problem.value} retry={loaded.reload} /> };
  // The answer to other words would list a job that does not have these.
  if (loaded.data.value?.words !== words) return { id: "", instead: <Skeleton rows={6} /> };
  const { jobs, next_cursor } = loaded.data.value;
  const exact = jobs.find((job) => job.name === words) ?? (jobs.length === 1 ? jobs[0] : null);
  if (exact) return { id: exact.job_id, instead: null };
  if (!jobs.length) return { id: "", instead: <Empty title={`No job has “${words}” in its name`}><p>Runs of a deleted job are found by its id, with job:…</p></Empty> };
  const pick = (name: string) => setParams({ f: [...split(typedFilter.value).filter((part) => part.includes(":") && !part.startsWith('"')), `job:${/\s/.test(name) ? `"${name}"` : name}`].join(" ") });
  return { id: "", instead: <Empty title={`${next_cursor ? `${NAMED} or more` : jobs.length} jobs have “${words}” in their name. Whose runs?`}><div class="row">{jobs.map((job) => <button key={job.job_id} type="button" class="chip" onClick={() => pick(job.name)}>{job.name}</button>)}</div></Empty> };
}
