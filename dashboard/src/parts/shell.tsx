// What stands around every page: the rail, the bar with search, live, zone, theme and help.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { needsKey, setKey, setTenant, tenant, whoami } from "../lib/api";
import { freshAt, isPaused, state, togglePause } from "../lib/live";
import { type Loaded, useLoad } from "../lib/load";
import { go, path } from "../lib/route";
import { setZone, span, TARGET_MS, ZONE_WORDS, type ZoneMode, zoneMode } from "../lib/time";
import { count } from "../lib/words";
import type { Stats, TenantList, WhoAmI } from "../types";
import { isHelpOpen, KEYS } from "./keys";
import { isPaletteOpen } from "./palette";
import { isNarrow } from "./table";
import { nextTheme, theme } from "./theme";
import { Dialog, said, StaleBand, Time } from "./ui";

export const PAGES: [string, string, string][] = [
  ["/", "Overview", "o"], ["/jobs", "Jobs", "j"], ["/runs", "Runs", "r"], ["/queues", "Queues", "q"], ["/workers", "Workers", "w"],
  ["/dead-letters", "Dead letters", "d"], ["/forecast", "Forecast", "f"], ["/alerts", "Alerts", "a"], ["/audit", "Audit", "u"], ["/settings", "Settings", "s"],
];

export const stats = signal<Stats | null>(null);
export let statsLoad: Loaded<Stats> | null = null;
const isRailOpen = signal(false);

export function Shell({ children }: { children: ComponentChildren }) {
  const loaded = useLoad<Stats>("/stats", { when: (change) => change.runs.length > 0 || change.jobs.length > 0, restMs: 3000, everyMs: 10_000 });
  statsLoad = loaded;
  const me = useLoad<WhoAmI>("/whoami");
  useEffect(() => {
    stats.value = loaded.data.value;
  }, [loaded.data.value]);
  // Whether only the stream is away, or the server with it.
  useEffect(() => {
    if (state.value === "reconnecting") loaded.reload();
  }, [state.value]);
  useEffect(() => {
    whoami.value = me.data.value;
  }, [me.data.value]);
  useEffect(() => {
    isRailOpen.value = false;
  }, [path.value]);
  const dead = loaded.data.value?.dead_letters ?? 0;
  const awayAt = useRef(0);
  awayAt.current = state.value === "reconnecting" ? awayAt.current || Date.now() : 0;
  const isKnown = !loaded.problem.value && loaded.readAt.value > awayAt.current;
  const health = <Health stats={loaded.data.value} isKnown={isKnown} />;
  useIcon(dead, loaded.data.value);
  return (
    <div class="shell">
      <a class="skip" href="#main">Skip to the page</a>
      <nav class={`rail ${isRailOpen.value ? "open" : ""}`} aria-label="Pages">
        <a class="brand" href="/">horae</a>
        {PAGES.map(([href, name]) => (
          <a key={href} class="item" href={href} aria-current={isAt(href) ? "page" : undefined}>
            {name}
            {href === "/dead-letters" && dead > 0 && <span class="pip">{count(dead)}<span class="visually-hidden"> dead runs</span></span>}
          </a>
        ))}
        {/* What the bar has no room for. */}
        <div class="rail-foot">{health}{isNarrow.value && <ZoneSwitch />}</div>
      </nav>
      <div class="main">
        <TopBar health={health} />
        <StaleBand isDown={loaded.problem.value?.status === 0} />
        <main id="main" tabIndex={-1}>{children}</main>
      </div>
      <div class="visually-hidden" role="status" aria-live="polite">{said.value}</div>
      {isHelpOpen.value && <Help />}
    </div>
  );
}

const isAt = (href: string) => (href === "/" ? path.value === "/" : path.value === href || path.value.startsWith(`${href}/`));

function TopBar({ health }: { health: ComponentChildren }) {
  return (
    <header class="top">
      <button type="button" class="plain phone-only" aria-label="Pages" aria-expanded={isRailOpen.value} onClick={() => (isRailOpen.value = !isRailOpen.value)}>☰</button>
      <button type="button" class="find" onClick={() => (isPaletteOpen.value = true)}><span>Find a job, a run, a page…</span><kbd>Ctrl K</kbd></button>
      <span class="grow wide-only" />
      {health}
      <TenantSwitch />
      <LiveButton />
      {!isNarrow.value && <ZoneSwitch />}
      <button type="button" class="plain" onClick={nextTheme} title="Theme (t)" aria-label={`Theme: ${theme.value}. Change`}>{theme.value === "dark" ? "☾" : theme.value === "light" ? "☀" : "◐"}</button>
      <button type="button" class="plain wide-only" onClick={() => (isHelpOpen.value = true)} title="Keys (?)" aria-label="Keyboard keys">?</button>
    </header>
  );
}

function ZoneSwitch() {
  return (
    <select aria-label="Time zone" value={zoneMode.value} onChange={(event) => setZone(event.currentTarget.value as ZoneMode)}>
      {(Object.keys(ZONE_WORDS) as ZoneMode[]).map((mode) => <option key={mode} value={mode}>{ZONE_WORDS[mode]}</option>)}
    </select>
  );
}

/** How far behind the start of runs is: of those that waited, and of those that wait. */
function Health({ stats, isKnown }: { stats: Stats | null; isKnown: boolean }) {
  if (!stats) return null;
  if (!isKnown) return <span class="health tone-retrying">Not known whether runs start</span>;
  const behind = [...stats.waiting].sort((a, b) => (b.oldest_seconds ?? 0) - (a.oldest_seconds ?? 0))[0];
  const oldest = behind?.oldest_seconds ?? 0;
  const late = stats.recent.lateness_ms.p95;
  if (!stats.workers.alive) return <a class="health tone-dead" href="/workers">No worker is up</a>;
  if (oldest > 30) return <a class="health tone-retrying" href="/queues">Behind: queue {behind.queue} waits {span(oldest * 1000)}</a>;
  if (late !== null && late > TARGET_MS) return <a class="health tone-retrying" href="/queues">Late: p95 {span(late)}, target {span(TARGET_MS)}</a>;
  return <a class="health dim" href="/workers">On time{late !== null ? ` · p95 ${span(late)}` : ""}</a>;
}

function LiveButton() {
  const word = isPaused.value ? "Paused" : state.value === "live" ? "Live" : state.value === "starting" ? "Starting" : "Reconnecting";
  return (
    <button type="button" class="plain" onClick={togglePause} title="Pause or resume live updates (Space)">
      <span class={`live ${isPaused.value ? "paused" : state.value}`}>{word}</span>
      {(isPaused.value || state.value === "reconnecting") && <span class="dim wide-only">data from <Time at={freshAt.value} mode="clock" /></span>}
    </button>
  );
}

function TenantSwitch() {
  const me = whoami.value;
  const [isOpen, setOpen] = useState(false);
  if (!me) return null;
  return (
    <>
      <button type="button" class="plain wide-only" aria-disabled={!me.may_switch_tenant} title={me.may_switch_tenant ? "Look at another tenant" : "Your key belongs to this tenant"} aria-label={`Tenant ${me.tenant}`} onClick={() => me.may_switch_tenant && setOpen(true)}>
        {me.tenant}{me.role !== "admin" && <span class="tag">{me.role}</span>}
      </button>
      {isOpen && <TenantDialog now={me.tenant} onClose={() => setOpen(false)} />}
    </>
  );
}

function TenantDialog({ now, onClose }: { now: string; onClose: () => void }) {
  const known = useLoad<TenantList>("/tenants?limit=200");
  return (
    <Dialog title="Tenant" onClose={onClose}>
      <form class="stack" onSubmit={(event) => {
        event.preventDefault();
        setTenant((new FormData(event.currentTarget).get("tenant") as string).trim());
        onClose();
      }}>
        <label class="field"><span>Look at the jobs of</span><input name="tenant" list="tenants" value={tenant.value || now} autocomplete="off" /></label>
        <datalist id="tenants">{known.data.value?.tenants.map((each) => <option key={each.tenant} value={each.tenant} />)}</datalist>
        <div class="row"><button class="primary">Switch</button><a href="/settings?tab=tenants" onClick={onClose}>All tenants</a></div>
      </form>
    </Dialog>
  );
}

function Help() {
  return (
    <Dialog title="Keyboard" onClose={() => (isHelpOpen.value = false)}>
      <table class="small-table"><tbody>{KEYS.map(([keys, what]) => <tr key={keys}><th scope="row"><kbd>{keys}</kbd></th><td>{what}</td></tr>)}</tbody></table>
    </Dialog>
  );
}

function useIcon(dead: number, stats: Stats | null): void {
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    const kind = stats && !stats.workers.alive ? "bad" : dead ? "warn" : "ok";
    if (link) link.href = `/icon-${kind}.svg`;
  }, [dead, stats?.workers.alive]);
}

export function useTitle(...parts: (string | null | undefined | false)[]): void {
  const text = [...parts.filter(Boolean), "horae"].join(" · ");
  useEffect(() => {
    document.title = text;
  }, [text]);
}

export function Login() {
  useTitle("Sign in");
  return (
    <main class="login" id="main">
      <h1>horae</h1>
      <p>This server asks for a key. It is kept by the open tabs of this page, which hand it to those you open from them, and forgotten when they are closed.</p>
      <form class="stack" onSubmit={(event) => {
        event.preventDefault();
        const value = (new FormData(event.currentTarget).get("key") as string).trim();
        if (!value) return;
        setKey(value);
        needsKey.value = false;
        if (path.value === "/login") go("/", true);
      }}>
        <label class="field"><span>API key</span><input name="key" type="password" autocomplete="off" autofocus required /></label>
        <LoginTrouble />
        <button class="primary">Open</button>
      </form>
      <p class="dim">The first admin key was printed when the server started for the first time, or is the one in HORAE_ADMIN_KEY. Admins make more under Settings, or with POST /api/v1/keys.</p>
    </main>
  );
}

function LoginTrouble() {
  return sessionStorage.getItem("horae.key") ? <p role="alert" class="tone-failed">This key is not known here. Check for a missing character, or ask an admin for a new one.</p> : null;
}
