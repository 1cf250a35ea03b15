// Keys, tenants, calendars, secrets, and how this page looks.
import { signal } from "@preact/signals";
import { enc, key, whoami, signOut } from "../lib/api";
import { useLoad } from "../lib/load";
import { param, setParams } from "../lib/route";
import { setZone, ZONE_WORDS, type ZoneMode, zoneMode } from "../lib/time";
import type { CalendarList, Key, KeyList, KeyShown, SecretList } from "../types";
import { areKeysOn, setKeys } from "../parts/keys";
import { useTitle } from "../parts/shell";
import { setTheme, theme, type Theme } from "../parts/theme";
import { Act, Command, Dialog, Empty, Panel, Tabs, Time } from "../parts/ui";
import { ask } from "../parts/write";
import { Tenants } from "./tenants";

const shownKey = signal<KeyShown | null>(null);

export function Settings() {
  const tab = param("tab", "page");
  useTitle("Settings");
  return (
    <>
      <div class="page-head"><div><h1>Settings</h1></div></div>
      <Tabs at={tab} onPick={(name) => setParams({ tab: name })} tabs={[["page", "This page"], ["keys", "Keys"], ["tenants", "Tenants"], ["calendars", "Calendars"], ["secrets", "Secrets"]]} />
      {tab === "page" && <PageSettings />}
      {tab === "keys" && <Keys />}
      {tab === "tenants" && <Tenants />}
      {tab === "calendars" && <Calendars />}
      {tab === "secrets" && <Secrets />}
    </>
  );
}

function PageSettings() {
  const me = whoami.value;
  return (
    <section class="panel stack">
      {me && <p>You are <strong>{me.actor}</strong>, {me.role} of tenant <strong>{me.tenant}</strong>{me.scopes.length ? `, for ${me.scopes.join(", ")}` : ""}.</p>}
      <div class="fields">
        <label class="field"><span>Theme</span><select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}><option value="system">as the system</option><option value="light">light</option><option value="dark">dark</option></select></label>
        <label class="field"><span>Times in</span><select value={zoneMode.value} onChange={(event) => setZone(event.currentTarget.value as ZoneMode)}>{(Object.keys(ZONE_WORDS) as ZoneMode[]).map((mode) => <option key={mode} value={mode}>{ZONE_WORDS[mode]}</option>)}</select></label>
        <label class="field"><span>Single-key shortcuts</span><select value={areKeysOn.value ? "on" : "off"} onChange={(event) => setKeys(event.currentTarget.value === "on")}><option value="on">on</option><option value="off">off</option></select></label>
      </div>
      {key.value && <p><button type="button" onClick={() => signOut()}>Forget the key and sign out</button></p>}
      <p class="dim">What the server does is set by its environment; <code>docs/settings.md</code> lists every variable.</p>
    </section>
  );
}

function Keys() {
  const loaded = useLoad<KeyList>("/keys?limit=200");
  return (
    <Panel title="Keys" from={loaded} actions={<Act operation="createKey" kind="primary" onClick={() => makeKey(loaded.reload)}>New key</Act>}>
      {({ keys }) => (
        <>
          {keys.length === 0 ? <Empty title="No key yet"><p>Under <code>horae dev</code> nobody needs one. Under <code>horae serve</code> each program gets its own.</p></Empty> : (
            <div class="scroll-x" tabIndex={0}><table class="small-table">
              <thead><tr><th scope="col">Name</th><th scope="col">Key</th><th scope="col">Role</th><th scope="col">Only for</th><th scope="col">State</th><th scope="col">Last used</th><th scope="col">Ends</th><th scope="col">Made by</th><th scope="col">Actions</th></tr></thead>
              <tbody>{keys.map((each) => <tr key={each.key_id}><th scope="row">{each.name}</th><td class="mono">{each.prefix}…</td><td>{each.role}</td><td>{each.scopes.join(", ") || "all"}</td><td class={each.status === "active" ? "tone-good" : "tone-quiet"}>{each.status}</td><td>{each.last_used_at ? <Time at={each.last_used_at} /> : "never"}</td><td>{each.expires_at ? <Time at={each.expires_at} /> : "never"}</td><td>{each.created_by}</td><td class="row"><Act operation="rotateKey" onClick={() => rotate(each, loaded.reload)} disabled={each.status === "active" ? "" : "It is not active."}>Rotate</Act><Act operation="revokeKey" onClick={() => revoke(each, loaded.reload)} disabled={each.status === "active" ? "" : "It is not active."}>Revoke</Act></td></tr>)}</tbody>
            </table></div>
          )}
          {shownKey.value && <Dialog title={`The key ${shownKey.value.name}`} onClose={() => (shownKey.value = null)}><p>It is shown only now. Keep it where secrets are kept.</p><Command text={shownKey.value.key ?? ""} /></Dialog>}
        </>
      )}
    </Panel>
  );
}

type KeyForm = { name: string; role: string; days: string };
function makeKey(after: () => void): void {
  const form = signal<KeyForm>({ name: "", role: "viewer", days: "90" });
  ask({
    title: "New key", button: "Make it", write: () => ({ method: "POST", path: "/keys", body: { name: form.value.name, role: form.value.role, ...(form.value.days ? { expires_in: `${Number(form.value.days) * 24}h` } : {}) } }),
    effect: <p>Viewers read; operators also run, pause and replay; editors also change jobs; admins also make keys.</p>,
    form: () => <KeyFields form={form} />,
    done: (answer) => { after(); shownKey.value = answer as KeyShown; return { text: "The key was made." }; },
  });
}

function KeyFields({ form }: { form: { value: KeyForm } }) {
  const set = (name: keyof KeyForm) => (event: Event) => (form.value = { ...form.value, [name]: (event.currentTarget as HTMLInputElement).value });
  return <div class="fields"><label class="field"><span>Name</span><input value={form.value.name} onInput={set("name")} placeholder="ci-deploy" /></label><label class="field"><span>Role</span><select value={form.value.role} onChange={set("role")}>{["viewer", "operator", "editor", "admin"].map((role) => <option key={role}>{role}</option>)}</select></label><label class="field"><span>Days until it ends</span><input type="number" min="1" value={form.value.days} onInput={set("days")} placeholder="empty: never" /></label></div>;
}

function rotate(each: Key, after: () => void): void {
  ask({ title: `Rotate ${each.name}`, button: "Rotate", write: { method: "POST", path: `/keys/${enc(each.key_id)}/rotate`, body: { overlap: "24h" } }, effect: <p>A new key in its place; the old one works for 24 more hours.</p>, done: (answer) => { after(); shownKey.value = answer as KeyShown; } });
}
function revoke(each: Key, after: () => void): void {
  ask({ title: `Revoke ${each.name}`, button: "Revoke", isDanger: true, typed: each.name, write: { method: "DELETE", path: `/keys/${enc(each.key_id)}` }, effect: <p>Whoever uses {each.prefix}… is refused within seconds. {each.last_used_at ? <>It was last used <Time at={each.last_used_at} />.</> : "It was never used."}</p>, done: () => { after(); return { text: "Revoked." }; } });
}

function Calendars() {
  const loaded = useLoad<CalendarList>("/calendars");
  return <Panel title="Calendars" from={loaded}>{({ calendars }) => calendars.length === 0 ? <Empty title="No calendar yet"><Command text={`curl -X PUT ${location.origin}/api/v1/calendars/company-days -H 'Content-Type: application/json' -d '{"exclude": ["2026-12-25"]}'`} /></Empty> : <table class="small-table"><thead><tr><th scope="col">Name</th><th scope="col">Holidays</th><th scope="col">Excluded days</th><th scope="col">Changed</th></tr></thead><tbody>{calendars.map((each) => <tr key={each.name}><th scope="row">{each.name}</th><td>{each.holidays ?? "–"}</td><td>{(each.exclude ?? []).join(", ") || "–"}</td><td><Time at={each.updated_at} /></td></tr>)}</tbody></table>}</Panel>;
}

function Secrets() {
  const loaded = useLoad<SecretList>("/secrets");
  return <Panel title="Secrets" from={loaded}>{({ secrets }) => secrets.length === 0 ? <Empty title="No secret yet"><p>Set once, used by name in a job’s target, never shown again.</p><Command text={`curl -X PUT ${location.origin}/api/v1/secrets/partner-token -H 'Content-Type: application/json' -d '{"value": "…"}'`} /></Empty> : <table class="small-table"><thead><tr><th scope="col">Name</th><th scope="col">Changed</th></tr></thead><tbody>{secrets.map((each) => <tr key={String((each as Record<string, unknown>).name)}><th scope="row">{String((each as Record<string, unknown>).name)}</th><td><Time at={(each as unknown as { updated_at?: string }).updated_at} /></td></tr>)}</tbody></table>}</Panel>;
}
