// What is wrong now, who is told about what, and every message that was sent or could not be.
import { signal } from "@preact/signals";
import { enc, query } from "../lib/api";
import { useLoad } from "../lib/load";
import { param, setParams } from "../lib/route";
import { span } from "../lib/time";
import type { DeliveryList, WebhookAnswer, WebhookList, WebhookSecret } from "../types";
import { WhyDialog } from "../parts/actions";
import { Incidents } from "../parts/incidents";
import { useTitle } from "../parts/shell";
import { HeadPill, useSteady } from "../parts/steady";
import { Act, Command, Dialog, Empty, Panel, Time } from "../parts/ui";
import { ask } from "../parts/write";

const EVENTS = ["dead_letter.added", "run.missed", "run.recovered", "run.late", "run.failed", "run.skipped", "run.cancelled", "run.unknown", "run.succeeded"];
const shown = signal<WebhookSecret | null>(null);

export function Alerts() {
  const hooks = useLoad<WebhookList>("/webhooks", { everyMs: 30_000 });
  const state = param("state");
  const deliveries = useLoad<DeliveryList>(`/deliveries${query({ limit: 100, state })}`, { everyMs: 10_000, when: (change) => change.runs.some((run) => run.status === "FAILED"), restMs: 3000 });
  const steady = useSteady(deliveries.data.value?.deliveries ?? null, (each) => each.delivery_id, deliveries.data.value, state);
  const settle = () => { steady.settle(); deliveries.reload(); };
  useTitle("Alerts");
  return (
    <>
      <div class="page-head"><div><h1>Alerts</h1><p class="dim">What is wrong now, who is told, and every message that was sent. “Recovered” follows every failure.</p></div><div class="page-actions"><Act operation="createWebhook" kind="primary" onClick={() => make(hooks.reload)}>New webhook</Act></div></div>
      <Incidents hooks={hooks.data.value?.webhooks ?? []} />
      <Panel title="Webhooks" from={hooks}>
        {({ webhooks }) => webhooks.length === 0 ? <Empty title="Nobody is told yet"><p>A good start: dead letters, missed and recovered runs, to one address.</p><Act operation="createWebhook" kind="primary" onClick={() => make(hooks.reload)}>New webhook</Act></Empty> : (
          <div class="scroll-x" tabIndex={0}><table class="small-table">
            <thead><tr><th scope="col">Name</th><th scope="col">Address</th><th scope="col">Events</th><th scope="col">State</th><th scope="col">Actions</th></tr></thead>
            <tbody>{webhooks.map((hook) => <tr key={hook.id}><th scope="row">{hook.name}</th><td class="mono">{hook.url}</td><td>{hook.events.join(", ")}</td><td>{hook.is_active ? <span class="tone-good">active</span> : <span class="tone-queued">off</span>}</td><td class="row"><Act operation="testWebhook" onClick={() => test(hook, settle)}>Send a test</Act><Act operation="changeWebhook" onClick={() => edit(hook, hooks.reload)}>Edit</Act><Act operation="changeWebhook" onClick={() => turn(hook, hooks.reload)}>{hook.is_active ? "Switch off" : "Switch on"}</Act><Act operation="rotateWebhook" onClick={() => rotate(hook)}>New secret</Act><Act operation="deleteWebhook" onClick={() => remove(hook, hooks.reload)}>Delete</Act></td></tr>)}</tbody>
          </table></div>
        )}
      </Panel>
      <Panel title="Messages" from={deliveries} actions={<><HeadPill steady={steady} noun="message" /><select aria-label="State of messages" value={state} onChange={(event) => setParams({ state: event.currentTarget.value || null }, false)}><option value="">All</option><option value="waiting">Waiting</option><option value="delivered">Delivered</option><option value="dead">Given up</option></select></>}>
        {() => steady.shown.length === 0 ? <p class="dim">{state ? "No message is in this state." : "No message has been sent."}</p> : (
          <div class="scroll" tabIndex={0}><table class="small-table">
            <thead><tr><th scope="col">When</th><th scope="col">Event</th><th scope="col">To</th><th scope="col">State</th><th scope="col">Answer</th><th scope="col" class="right">Took</th><th scope="col">Tries</th><th scope="col">Run</th><th scope="col">Actions</th></tr></thead>
            <tbody>{steady.shown.map(({ item: each, isGone }) => <tr key={each.delivery_id} class={isGone ? "gone" : ""}><th scope="row"><Time at={each.created_at} /></th><td>{each.event}</td><td class="mono">{hooks.data.value?.webhooks.find((hook) => hook.id === each.webhook_id)?.name ?? each.url ?? "–"}</td><td class={each.state === "delivered" ? "tone-good" : each.state === "dead" ? "tone-dead" : "tone-queued"}>{each.state === "dead" ? "given up" : each.state}{each.next_attempt_at && each.state === "waiting" && <>, again <Time at={each.next_attempt_at} /></>}</td><td>{each.status ?? ""} {each.error ?? ""}</td><td class="right">{each.took_ms === null ? "–" : span(each.took_ms)}</td><td>{each.attempts}</td><td>{each.run_id ? <a href={`/runs/${each.run_id}`}>open</a> : "–"}</td><td><Act operation="resendDelivery" kind="plain" onClick={() => resend(each.delivery_id, settle)}>Send again</Act></td></tr>)}</tbody>
          </table></div>
        )}
      </Panel>
      {shown.value && <Dialog title="The secret of this webhook" onClose={() => (shown.value = null)}><p>Messages are signed with it. It is shown only now.</p><Command text={String((shown.value as unknown as { secret?: string }).secret ?? "")} /></Dialog>}
      <WhyDialog />
    </>
  );
}

function make(after: () => void): void {
  const form = signal({ name: "", url: "", events: new Set(["dead_letter.added", "run.missed", "run.recovered"]) });
  ask({
    title: "New webhook", button: "Make it", write: () => ({ method: "POST", path: "/webhooks", body: { name: form.value.name, url: form.value.url, events: [...form.value.events] } }),
    effect: <p>Each event is sent as a signed POST, again for three days until the address answers 2xx.</p>,
    form: () => <HookForm form={form} />,
    done: (answer) => { after(); shown.value = answer as WebhookSecret; return { text: "The webhook was made." }; },
  });
}

type HookValues = { name: string; url: string; events: Set<string> };
function HookForm({ form }: { form: { value: HookValues } }) {
  const flip = (event: string) => {
    const events = new Set(form.value.events);
    events.has(event) ? events.delete(event) : events.add(event);
    form.value = { ...form.value, events };
  };
  return (
    <>
      <label class="field"><span>Name</span><input value={form.value.name} onInput={(event) => (form.value = { ...form.value, name: event.currentTarget.value })} placeholder="on-call" /></label>
      <label class="field"><span>Address</span><input value={form.value.url} onInput={(event) => (form.value = { ...form.value, url: event.currentTarget.value })} placeholder="https://example.com/horae" /></label>
      <fieldset class="row"><legend>Events</legend>{EVENTS.map((event) => <label key={event} class="row"><input type="checkbox" checked={form.value.events.has(event)} onChange={() => flip(event)} />{event}</label>)}</fieldset>
    </>
  );
}

function edit(hook: WebhookAnswer, after: () => void): void {
  const form = signal<HookValues>({ name: hook.name, url: hook.url, events: new Set<string>(hook.events) });
  ask({
    title: `Change ${hook.name}`, button: "Save", write: () => ({ method: "PATCH", path: `/webhooks/${enc(hook.id)}`, body: { name: form.value.name, url: form.value.url, events: [...form.value.events] } }),
    effect: <p>Messages that wait already go to the address as it will be.</p>, form: () => <HookForm form={form} />,
    done: () => { after(); return { text: "Saved." }; },
  });
}
function rotate(hook: WebhookAnswer): void {
  ask({ title: `A new secret for ${hook.name}`, button: "Make it", isDanger: true, write: { method: "POST", path: `/webhooks/${enc(hook.id)}/rotate`, body: {} }, effect: <p>From now on messages are signed with the new one. Whoever checks them needs it.</p>, done: (answer) => { shown.value = answer as WebhookSecret; return { text: "The secret is new." }; } });
}
function test(hook: WebhookAnswer, after: () => void): void {
  ask({ title: `Send a test to ${hook.name}`, button: "Send", write: { method: "POST", path: `/webhooks/${enc(hook.id)}/test`, body: {} }, effect: <p>One message to {hook.url}. Its answer stands under Messages a moment later.</p>, done: () => { after(); return { text: "The test is on its way." }; } });
}
function turn(hook: WebhookAnswer, after: () => void): void {
  ask({ title: `${hook.is_active ? "Switch off" : "Switch on"} ${hook.name}`, button: hook.is_active ? "Switch off" : "Switch on", write: { method: "PATCH", path: `/webhooks/${enc(hook.id)}`, body: { is_active: !hook.is_active } }, effect: <p>{hook.is_active ? "No further message is sent to it." : "Events are sent to it again, from now on."}</p>, done: () => { after(); return { text: "Done." }; } });
}
function remove(hook: WebhookAnswer, after: () => void): void {
  ask({ title: `Delete ${hook.name}`, button: "Delete", isDanger: true, write: { method: "DELETE", path: `/webhooks/${enc(hook.id)}` }, effect: <p>{hook.url} is told nothing more.</p>, done: () => { after(); return { text: "Deleted." }; } });
}
function resend(id: string, after: () => void): void {
  ask({ title: "Send this message again", button: "Send", write: { method: "POST", path: `/deliveries/${enc(id)}/resend`, body: {} }, effect: <p>The same message with the same id.</p>, done: () => { after(); return { text: "On its way." }; } });
}
