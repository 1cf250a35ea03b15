// What is due when: a week by hours, an hour by minutes, a minute by jobs.
import { useLayoutEffect, useRef } from "preact/hooks";
import { enc, get } from "../lib/api";
import { useLoad } from "../lib/load";
import { param, setParams } from "../lib/route";
import { absolute, clock, day, ms, weekday, zoneOf } from "../lib/time";
import { plural } from "../lib/words";
import type { DueJobs, Forecast as ForecastAnswer } from "../types";
import { useTitle } from "../parts/shell";
import { Panel, Time } from "../parts/ui";

const HOUR = 3_600_000;
const MINUTE = 60_000;

export function Forecast() {
  useTitle("Forecast");
  const read = (_: string, signal: AbortSignal) => {
    const from = Math.floor(Date.now() / HOUR) * HOUR;
    return get<ForecastAnswer>(`/forecast?bucket=1h&from=${enc(new Date(Math.max(from, Date.now())).toISOString())}&to=${enc(new Date(from + 7 * 24 * HOUR).toISOString())}`, signal);
  };
  const loaded = useLoad<ForecastAnswer>("week", { when: (change) => change.jobs.length > 0, restMs: 15_000, everyMs: 120_000 }, read);
  const hour = Number(param("hour")) || 0;
  const minute = Number(param("minute")) || 0;
  return (
    <>
      <div class="page-head"><div><h1>Forecast</h1><p class="dim">What is due in the next seven days.</p></div></div>
      <Panel title="Seven days, by the hour" from={loaded} rows={8}>{(data) => <Week data={data} picked={hour} />}</Panel>
      {hour > 0 && <Minutes hour={hour} picked={minute} />}
      {minute > 0 && <Due minute={minute} />}
    </>
  );
}

function Week({ data, picked }: { data: ForecastAnswer; picked: number }) {
  const zone = zoneOf();
  const runs = new Map(data.buckets.map((bucket) => [ms(bucket.at), bucket.runs]));
  const start = Math.floor(ms(data.from) / HOUR) * HOUR;
  const days = new Map<string, Map<number, number>>();
  for (let at = start; at < start + 7 * 24 * HOUR; at += HOUR) {
    const key = day(at, zone);
    if (!days.has(key)) days.set(key, new Map());
    days.get(key)!.set(Number(clock(at, zone).slice(0, 2)), at);
  }
  const most = Math.max(1, ...runs.values());
  const peak = [...runs].sort((a, b) => b[1] - a[1])[0];
  const least = Math.min(most, ...runs.values());
  const heat = (n: number) => (n === 0 ? 0 : 1 + Math.floor((3.99 * (n - least)) / Math.max(1, Math.max(most, least * 2) - least)));
  const box = useRef<HTMLDivElement>(null);
  // On a phone a third of the day has room; the first look is at the present hour, beside the names of the days.
  useLayoutEffect(() => {
    const hours = box.current!.querySelectorAll(".hour");
    box.current!.scrollLeft = hours[Number(clock(Date.now(), zone).slice(0, 2))].getBoundingClientRect().left - hours[0].getBoundingClientRect().left;
  }, [zone]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 24, ArrowUp: -24 }[event.key];
    if (!step) return;
    const all = [...(event.currentTarget as Element).querySelectorAll("button")];
    all[all.indexOf(document.activeElement as HTMLButtonElement) + step]?.focus();
    event.preventDefault();
  };
  return (
    <div class="stack">
      <div class="tiles">
        <div class="tile"><strong>{data.runs.toLocaleString("en")}</strong><span>runs of {plural(data.jobs, "job")}{data.is_complete ? "" : " (counted in part: too many for one answer)"}</span></div>
        {peak && <div class="tile"><strong>{peak[1].toLocaleString("en")}</strong><span>in the busiest hour, {absolute(peak[0], zone, false)}</span></div>}
      </div>
      <div class="heat" ref={box} onKeyDown={move} role="group" aria-label="Runs due in each hour">
        <span />{Array.from({ length: 24 }, (_, i) => <span class="hour" key={i} aria-hidden="true">{String(i).padStart(2, "0")}</span>)}
        {[...days].map(([key, hours]) => [
          <span class="day" key={key}>{weekday(ms(`${key}T12:00:00Z`), "UTC")} {key.slice(5)}</span>,
          ...Array.from({ length: 24 }, (_, i) => {
            const at = hours.get(i);
            const n = at === undefined ? 0 : (runs.get(at) ?? 0);
            const shown = n > 999 ? `${(n / 1000).toFixed(1).replace(".0", "")}k` : String(n);
            // What is read aloud holds what is seen: who speaks to the page says that.
            const words = at === undefined ? "outside" : `${key} ${String(i).padStart(2, "0")}:00, ${n > 999 ? `${shown} runs: ${n.toLocaleString("en")}` : plural(n, "run")}`;
            return <button key={`${key}${i}`} type="button" disabled={at === undefined} data-heat={heat(n)} aria-label={words} title={words} aria-pressed={picked === at} onClick={() => setParams({ hour: String(at), minute: null })}>{n ? shown : ""}</button>;
          }),
        ])}
      </div>
      {!data.runs && <p class="dim">Nothing is planned in the next seven days.</p>}
    </div>
  );
}

function Minutes({ hour, picked }: { hour: number; picked: number }) {
  const from = Math.max(hour, Date.now());
  const loaded = useLoad<ForecastAnswer>(`minutes ${hour}`, {}, (_, signal) => get<ForecastAnswer>(`/forecast?bucket=1m&from=${enc(new Date(from).toISOString())}&to=${enc(new Date(hour + HOUR).toISOString())}`, signal));
  return (
    <Panel title={<>The hour from <Time at={hour} mode="absolute" seconds={false} /></>} from={loaded}>
      {(data) => {
        const runs = new Map(data.buckets.map((bucket) => [ms(bucket.at), bucket.runs]));
        const minutes = Array.from({ length: 60 }, (_, i) => ({ at: hour + i * MINUTE, runs: runs.get(hour + i * MINUTE) ?? 0 }));
        const peak = minutes.reduce((a, b) => (b.runs > a.runs ? b : a));
        return (
          <>
            <div class="minutes" role="group" aria-label="Runs due in each minute">{minutes.map((minute) => <button key={minute.at} type="button" class={minute.runs === 0 ? "none" : minute.at === picked || minute === peak ? "peak" : ""} style={{ height: `${peak.runs ? Math.max(6, (minute.runs / peak.runs) * 100) : 6}%` }} aria-label={`${clock(minute.at, zoneOf(), false)}, ${plural(minute.runs, "run")}`} title={`${clock(minute.at, zoneOf(), false)}: ${minute.runs}`} aria-pressed={minute.at === picked} onClick={() => setParams({ minute: String(minute.at) })} />)}</div>
            <div class="axis" aria-hidden="true">{[0, 15, 30, 45, 59].map((i) => <span key={i}>{clock(minutes[i].at, zoneOf(), false)}</span>)}</div>
            <p class="dim">{plural(data.runs, "run")}; most at {clock(peak.at, zoneOf(), false)}: {peak.runs}. Choose a minute to see its jobs.</p>
          </>
        );
      }}
    </Panel>
  );
}

function Due({ minute }: { minute: number }) {
  const loaded = useLoad<DueJobs>(`/forecast/jobs?from=${enc(new Date(minute).toISOString())}&to=${enc(new Date(minute + MINUTE).toISOString())}&limit=200`);
  return (
    <Panel title={<>Jobs due at <Time at={minute} mode="absolute" seconds={false} /></>} from={loaded}>
      {({ jobs, is_complete }) => jobs.length === 0 ? <p class="dim">No job is due in this minute.</p> : (
        <><table class="small-table"><thead><tr><th scope="col">Job</th><th scope="col">First due</th><th scope="col" class="right">Runs</th><th scope="col">Queue</th><th scope="col">Priority</th></tr></thead><tbody>{jobs.map((job) => <tr key={job.job_id}><th scope="row"><a href={`/jobs/${enc(job.job_name)}`}>{job.job_name}</a></th><td><Time at={job.due} mode="clock" /></td><td class="right">{job.runs}</td><td>{job.queue}</td><td>{job.priority.toLowerCase()}</td></tr>)}</tbody></table>
        <p class="dim">{is_complete ? plural(jobs.length, "job") : `The first ${jobs.length} jobs; there are more`}. <a href={`/jobs/${enc(jobs[0].job_name)}/edit`}>Move one</a> to spread the minute.</p></>
      )}
    </Panel>
  );
}
