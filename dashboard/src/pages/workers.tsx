// Who runs the runs: slots, what they can do, when they were last seen.
import { enc } from "../lib/api";
import { useLoad } from "../lib/load";
import type { WorkerList } from "../types";
import { Icon } from "../parts/icons";
import { useTitle } from "../parts/shell";
import { HeadPill, useSteady } from "../parts/steady";
import { Act, Command, Empty, Panel, Time } from "../parts/ui";
import { ask } from "../parts/write";
import type { Shape } from "../lib/words";

type Worker = WorkerList["workers"][number];
const STATES: Record<string, [Shape, string]> = { active: ["tick", "good"], draining: ["pause", "queued"], lost: ["broken", "dead"] };

export function Workers() {
  const loaded = useLoad<WorkerList>("/workers", { everyMs: 5000 });
  const found = loaded.data.value && [...loaded.data.value.workers].sort((a, b) => rank(a) - rank(b));
  const steady = useSteady(found, (worker) => worker.worker_id, loaded.data.value);
  useTitle("Workers");
  return (
    <>
      <div class="page-head"><div><h1>Workers</h1></div></div>
      <Panel title="Lost ones first" from={loaded} actions={<HeadPill steady={steady} noun="worker" />}>
        {() => steady.shown.length === 0 ? <Empty title="No workers"><p>Nothing runs until one is started:</p><Command text="horae serve --roles worker" /></Empty> : (
          <div class="scroll-x" tabIndex={0}><table class="small-table">
            <thead><tr><th scope="col">Worker</th><th scope="col">State</th><th scope="col">Slots</th><th scope="col">Queues</th><th scope="col">Offers</th><th scope="col">Seen</th><th scope="col">Started</th><th scope="col">Actions</th></tr></thead>
            <tbody>{steady.shown.map(({ item: worker, isGone }) => {
              const [shape, tone] = STATES[worker.state] ?? ["question", "quiet"];
              return (
                <tr key={worker.worker_id} class={isGone ? "gone" : ""}>
                  <th scope="row">{worker.node}<div class="dim mono">{worker.worker_id}</div></th>
                  <td class={`tone-${tone}`}><Icon shape={shape as Shape} /> {isGone ? "gone" : worker.state}</td>
                  <td><a href={`/runs?f=${enc(`worker:${worker.worker_id} status:running`)}`}>{worker.running} of {worker.slots}</a><div><meter min={0} max={worker.slots || 1} value={worker.running} aria-label={`${worker.running} of ${worker.slots} slots in use`} /></div></td>
                  <td>{worker.queues.join(", ")}</td><td>{worker.needs.join(", ") || "–"}</td><td><Time at={worker.seen_at} /></td><td><Time at={worker.started_at} /></td>
                  <td>{worker.state === "active" && !isGone ? <Act operation="drainWorker" onClick={() => drain(worker, loaded.reload)}>Drain</Act> : <span class="dim">–</span>}</td>
                </tr>
              );
            })}</tbody>
          </table></div>
        )}
      </Panel>
    </>
  );
}

const rank = (worker: Worker) => ({ lost: 0, draining: 1 })[worker.state] ?? 2;

function drain(worker: Worker, after: () => void): void {
  ask({
    title: `Drain the worker on ${worker.node}`, button: "Drain", isDanger: true, write: { method: "POST", path: `/workers/${enc(worker.worker_id)}/drain`, body: {} },
    effect: <p>It takes no new runs; the {worker.running} it has may end. It stays so until its process is started anew.</p>,
    done: () => { after(); return { text: "The worker takes no more runs." }; },
  });
}
