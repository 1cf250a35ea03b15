// Tenants: what each may hold and holds, and another look at one of them.
import { signal } from "@preact/signals";
import { enc, setTenant, tenant as chosen, type Write } from "../lib/api";
import { useLoad } from "../lib/load";
import { count } from "../lib/words";
import type { Tenant, TenantList } from "../types";
import { Act, Empty, Panel, tell } from "../parts/ui";
import { ask } from "../parts/write";

type Limit = "max_jobs" | "max_queued_runs" | "max_running_runs" | "requests_per_second";
const LIMITS: [Limit, string][] = [["max_jobs", "Most jobs"], ["max_queued_runs", "Most waiting runs"], ["max_running_runs", "Most running at once"], ["requests_per_second", "Requests a second"]];
type Form = { tenant: string; weight: string; description: string } & Record<Limit, string>;

const shown = (value: number | null): string => (value === null ? "no limit" : count(value, Infinity));

export function Tenants() {
  const loaded = useLoad<TenantList>("/tenants?limit=200");
  return (
    <Panel title="Tenants" from={loaded} actions={<Act operation="createTenant" onClick={() => change(null, loaded.reload)}>New tenant</Act>}>
      {({ tenants }) => tenants.length === 0 ? <Empty title="One tenant, without limits"><p>Others have their own jobs, keys and limits; none sees another.</p></Empty> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of tenants"><table class="small-table">
          <thead><tr><th scope="col">Tenant</th><th scope="col" class="right">Jobs</th>{LIMITS.slice(1).map(([name, word]) => <th scope="col" class="right" key={name}>{word}</th>)}<th scope="col" class="right">Weight</th><th scope="col">State</th><th scope="col">Actions</th></tr></thead>
          <tbody>{tenants.map((each) => <tr key={each.tenant}>
            <th scope="row">{each.tenant}{each.description && <div class="dim">{each.description}</div>}</th>
            <td class="right"><Use of={each} /></td>{LIMITS.slice(1).map(([name]) => <td class="right" key={name}>{shown(each[name])}</td>)}<td class="right">{each.weight}</td>
            <td>{each.paused ? <span class="tone-queued">paused</span> : <span class="tone-good">active</span>}</td>
            <td class="row">
              <button type="button" aria-pressed={chosen.value === each.tenant} onClick={() => { setTenant(each.tenant); tell(`You look at the tenant ${each.tenant}.`, { href: "/", text: "Overview" }); }}>Look</button>
              <Act operation="changeTenant" onClick={() => change(each, loaded.reload)}>Edit</Act>
              <Act operation="changeTenant" onClick={() => pause(each, loaded.reload)}>{each.paused ? "Resume" : "Pause"}</Act>
            </td>
          </tr>)}</tbody>
        </table></div>
      )}
    </Panel>
  );
}

function Use({ of: { usage, max_jobs } }: { of: Tenant }) {
  if (usage.jobs === null) return <>{max_jobs === null ? "no limit" : `at most ${count(max_jobs, Infinity)}`}</>;
  if (max_jobs === null) return <>{count(usage.jobs, Infinity)}</>;
  const words = `${count(usage.jobs, Infinity)} of ${count(max_jobs, Infinity)}`;
  return <>{words}<div><meter min={0} max={max_jobs || 1} high={max_jobs * 0.9} value={usage.jobs} aria-label={`${words} jobs`} /></div></>;
}

function change(each: Tenant | null, after: () => void): void {
  const text = (value: number | null | undefined) => (value === null || value === undefined ? "" : String(value));
  const first: Form = {
    tenant: each?.tenant ?? "", weight: text(each?.weight ?? 1), description: each?.description ?? "", max_jobs: text(each?.max_jobs), max_queued_runs: text(each?.max_queued_runs),
    max_running_runs: text(each?.max_running_runs), requests_per_second: text(each?.requests_per_second),
  };
  const form = signal(first);
  const write = (): Write => {
    const body: Record<string, unknown> = {};
    for (const [name] of LIMITS) if (form.value[name] !== first[name]) body[name] = form.value[name] === "" ? null : Number(form.value[name]);
    if (form.value.weight !== first.weight) body.weight = Number(form.value.weight);
    if (form.value.description !== first.description) body.description = form.value.description;
    return each ? { method: "PATCH", path: `/tenants/${enc(each.tenant)}`, body } : { method: "POST", path: "/tenants", body: { tenant: form.value.tenant, ...body } };
  };
  ask({
    title: each ? `Edit the tenant ${each.tenant}` : "New tenant", button: each ? "Save" : "Make it", write,
    effect: <p>{each ? <>{each.usage.jobs !== null && `It holds ${count(each.usage.jobs, Infinity)} jobs now. `}A limit below what it holds keeps what is there and refuses more.</> : "Its jobs, runs and keys are its own. An empty limit is none."}</p>,
    form: () => <Fields form={form} isNew={!each} />,
    done: () => { after(); return { text: each ? `${each.tenant} was saved.` : `${form.value.tenant} was made.` }; },
  });
}

function Fields({ form, isNew }: { form: { value: Form }; isNew: boolean }) {
  const set = (name: keyof Form) => (event: Event) => (form.value = { ...form.value, [name]: (event.currentTarget as HTMLInputElement).value });
  return (
    <div class="fields">
      {isNew && <label class="field"><span>Name</span><input value={form.value.tenant} onInput={set("tenant")} placeholder="team-a" required /></label>}
      {LIMITS.map(([name, word]) => <label class="field" key={name}><span>{word}</span><input type="number" min="0" value={form.value[name]} onInput={set(name)} placeholder="no limit" /></label>)}
      <label class="field"><span>Weight</span><input type="number" min="1" value={form.value.weight} onInput={set("weight")} /><small>its share when slots are short</small></label>
      <label class="field"><span>Whose it is</span><input value={form.value.description} onInput={set("description")} /></label>
    </div>
  );
}

function pause(each: Tenant, after: () => void): void {
  ask({
    title: `${each.paused ? "Resume" : "Pause"} the tenant ${each.tenant}`, button: each.paused ? "Resume" : "Pause", isDanger: !each.paused, write: { method: "PATCH", path: `/tenants/${enc(each.tenant)}`, body: { paused: !each.paused } },
    effect: <p>{each.paused ? "Its runs may start again." : "None of its runs starts until it is resumed."}</p>,
    done: () => { after(); return { text: `${each.tenant} is ${each.paused ? "active" : "paused"}.` }; },
  });
}
