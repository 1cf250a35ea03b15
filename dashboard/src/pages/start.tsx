// The overview of a server without jobs: three doors, each also as a command.
import { useState } from "preact/hooks";
import { whyNot } from "../lib/api";
import { problemOf } from "../lib/load";
import type { Problem } from "../types";
import { loadDemo } from "../parts/demo";
import { Act, Command, Empty, ProblemBox, tell } from "../parts/ui";

export function Start() {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const demo = () => {
    setBusy(true);
    setProblem(null);
    loadDemo().then(() => tell("Demo jobs were made. This page offers to remove them."), (error) => setProblem(problemOf(error))).finally(() => setBusy(false));
  };
  return (
    <>
      <h1 class="visually-hidden">Overview</h1>
      <Empty title="No jobs yet. Three ways to begin:">
        <div class="doors">
          <div class="door"><h2>Bring your crontab</h2><p>Paste it, see what each line means and when it runs next, then take it over.</p><a class="button primary" href="/import" title={whyNot("createJobs")}>Import a crontab</a><Command text={`crontab -l | horae import crontab - --url ${location.origin}`} /></div>
          <div class="door"><h2>Make a job</h2><p>Type when, and see in words and dates what it means.</p><a class="button primary" href="/jobs/new">New job</a><Command text={`horae job create hello --schedule '* * * * *' --command date --url ${location.origin}`} /></div>
          <div class="door"><h2>Look around first</h2><p>A few made-up jobs, labelled demo, that do nothing and go away with one click.</p><Act operation="createJobs" kind="primary" onClick={demo} disabled={isBusy ? "On its way." : ""}>{isBusy ? "Loading…" : "Load demo data"}</Act>{problem && <ProblemBox problem={problem} />}<p class="dim">Thousands of them, with a past: stop horae, run this, start it again.</p><Command text="horae demo load" /></div>
        </div>
      </Empty>
    </>
  );
}
