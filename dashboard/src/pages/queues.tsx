// What waits where, for how long, and who could take it.
import { enc } from "../lib/api";
import { useLoad } from "../lib/load";
import { param, setParams } from "../lib/route";
import { span } from "../lib/time";
import { count } from "../lib/words";
import type { Queue, QueueList, WorkerList } from "../types";
import { useTitle } from "../parts/shell";
import { HeadPill, useSteady } from "../parts/steady";
import { Act, Badge, Command, Empty, Panel } from "../parts/ui";
import { ask } from "../parts/write";
import { signal } from "@preact/signals";

export function Queues() {
  const loaded = useLoad<QueueList>("/queues", { when: (change) => change.runs.length > 0, restMs: 2000, everyMs: 10_000 });
  const workers = useLoad<WorkerList>("/workers", { everyMs: 15_000 });
  const text = param("f");
  useTitle("Queues");
  const alive = (workers.data.value?.workers ?? []).filter((worker) => worker.state !== "lost");
  const serving = (queue: Queue) => alive.filter((worker) => worker.queues.includes("*") || worker.queues.includes(queue.queue));
  const found = loaded.data.value && loaded.data.value.queues.filter((queue) => queue.queue.includes(text)).sort((a, b) => (b.oldest_age_ms ?? -1) - (a.oldest_age_ms ?? -1) || a.queue.localeCompare(b.queue));
  const steady = useSteady(found, (queue) => queue.queue, loaded.data.value, `${text} ${!found?.length}`);
  const stuck = workers.data.value ? (found ?? []).filter((queue) => queue.queued > 0 && !serving(queue).length) : [];
  return (
    <>
      <div class="page-head"><div><h1>Queues</h1></div></div>
      <input data-filter type="search" aria-label="Filter" placeholder="Name of a queue" value={text} onInput={(event) => setParams({ f: event.currentTarget.value || null }, true)} />
      <Panel title="By the age of the oldest run" from={loaded} actions={<HeadPill steady={steady} noun="queue" />}>
        {() => {
          if (!steady.shown.length) return <Empty title={text ? "No queue has this in its name" : "No queue yet"}><p>A queue is made when a job first names it.</p></Empty>;
          return (
            <div class="scroll-x" tabIndex={0}><table class="small-table">
              <thead><tr><th scope="col">Queue</th><th scope="col">State</th>{["High", "Medium", "Low"].map((word) => <th scope="col" class="right" key={word}>{word}</th>)}<th scope="col" class="right">Oldest</th><th scope="col" class="right">Running</th><th scope="col" class="right">Most at once</th><th scope="col">Workers</th><th scope="col">Actions</th></tr></thead>
              <tbody>{steady.shown.map(({ item: queue, isGone }) => (
                <tr key={queue.queue} class={isGone ? "gone" : ""}>
                  <th scope="row"><a href={`/runs?f=${enc(`queue:${queue.queue} status:queued`)}`}>{queue.queue}</a></th>
                  <td>{queue.paused ? <Badge status="PAUSED" kind="job" /> : <span class="tone-good">open</span>}</td>
                  {(["HIGH", "MEDIUM", "LOW"] as const).map((word) => <td class="right" key={word}><div class="two-lines">{count(queue.by_priority[word].queued)}{queue.by_priority[word].oldest_age_ms !== null && <div class="dim">{span(queue.by_priority[word].oldest_age_ms!)}</div>}</div></td>)}
                  <td class="right">{queue.oldest_age_ms === null ? "–" : span(queue.oldest_age_ms)}</td><td class="right">{queue.running}</td><td class="right">{queue.max_running ?? "no limit"}</td>
                  <td>{serving(queue).length || <span class="tone-dead">none</span>}</td>
                  <td class="row">{queue.paused ? <Act operation="resumeQueue" onClick={() => turn(queue, "resume", loaded.reload)}>Resume</Act> : <Act operation="pauseQueue" onClick={() => turn(queue, "pause", loaded.reload)}>Pause</Act>}<Act operation="changeQueue" onClick={() => limit(queue, loaded.reload)}>Limit</Act></td>
                </tr>
              ))}</tbody>
            </table></div>
          );
        }}
      </Panel>
      {/* Below the rows, where it moves none of them. */}
      {stuck.length > 0 && <section class="panel stack" aria-label="Without workers">{stuck.slice(0, 10).map((queue) => <div class="stack" key={queue.queue}><p class="tone-dead">Runs wait in {queue.queue}. No worker serves it. Start one:</p><Command text={`horae serve --roles worker --worker-queues ${queue.queue}`} /></div>)}</section>}
    </>
  );
}

function turn(queue: Queue, verb: "pause" | "resume", after: () => void): void {
  ask({
    title: `${verb === "pause" ? "Pause" : "Resume"} the queue ${queue.queue}`, button: verb === "pause" ? "Pause" : "Resume", write: { method: "POST", path: `/queues/${enc(queue.queue)}/${verb}`, body: {} },
    effect: <p>{verb === "pause" ? "Runs go on being queued and none is started. Those that run now go on." : `${count(queue.queued)} waiting runs may start at once.`}</p>,
    done: () => { after(); return { text: `${queue.queue} is ${verb === "pause" ? "paused" : "open"}.` }; },
  });
}

function limit(queue: Queue, after: () => void): void {
  const most = signal(queue.max_running === null ? "" : String(queue.max_running));
  ask({
    title: `Limit the queue ${queue.queue}`, button: "Set", write: () => ({ method: "PATCH", path: `/queues/${enc(queue.queue)}`, body: { max_running: most.value === "" ? null : Number(most.value) } }),
    effect: <p>At most so many of its runs at once, on all workers together.</p>,
    form: () => <Most value={most} />,
    done: () => { after(); return { text: "The limit is set." }; },
  });
}

function Most({ value }: { value: { value: string } }) {
  return <label class="field"><span>Most at once</span><input type="number" min="0" value={value.value} placeholder="empty: no limit" onInput={(event) => (value.value = event.currentTarget.value)} /></label>;
}
