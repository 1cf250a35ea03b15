// Time series by uPlot, with a summary in words and the same numbers as a table.
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock, day, zoneMode, zoneOf } from "../lib/time";
import { themeTurn } from "./theme";

export type Line = { label: string; values: (number | null)[]; color: string; dash?: number[]; width?: number; points?: boolean; isCross?: boolean; isSparse?: boolean };
export type Mark = { at: number; label: string };
type Props = { title: string; summary: string; times: number[]; lines: Line[]; unit?: (value: number) => string; height?: number; marks?: Mark[]; target?: { value: number; label: string }; onPick?: (index: number) => void; isBars?: boolean };

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ title, summary, times, lines, unit = String, height = 150, marks = [], target, onPick }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [isTable, setTable] = useState(false);
  const turn = themeTurn.value;
  const zone = zoneMode.value;
  const [Plot, setPlot] = useState<typeof uPlot | null>(null);
  // Fetched when the first chart is drawn: no list has to wait for it.
  useEffect(() => void import("uplot").then((made) => setPlot(() => made.default)), []);
  useEffect(() => {
    const element = box.current;
    if (!element || isTable || !Plot) return;
    const ink = css("--dim"), grid = css("--line");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, font: "11px system-ui" };
    const drawMarks = (plot: uPlot) => {
      const { ctx } = plot;
      const { left, top, width, height: tall } = plot.bbox;
      ctx.save();
      ctx.lineWidth = devicePixelRatio;
      ctx.font = `${10 * devicePixelRatio}px system-ui`;
      for (const mark of marks) {
        const x = Math.round(plot.valToPos(mark.at / 1000, "x", true));
        if (x < left || x > left + width) continue;
        ctx.strokeStyle = css("--missed");
        ctx.setLineDash([3, 3]);
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, top + tall);
        ctx.stroke();
        ctx.fillStyle = css("--missed");
        ctx.fillText(mark.label, x + 3, top + 10 * devicePixelRatio);
      }
      lines.forEach((line, at) => {
        if (!line.isCross) return;
        const arm = 3.5 * devicePixelRatio;
        ctx.setLineDash([]);
        ctx.lineWidth = 1.75 * devicePixelRatio;
        ctx.strokeStyle = css(line.color) || line.color;
        ctx.beginPath();
        line.values.forEach((value, i) => {
          if (value === null) return;
          const x = plot.valToPos(plot.data[0][i], "x", true), y = plot.valToPos(value, plot.series[at + 1].scale!, true);
          ctx.moveTo(x - arm, y - arm);
          ctx.lineTo(x + arm, y + arm);
          ctx.moveTo(x + arm, y - arm);
          ctx.lineTo(x - arm, y + arm);
        });
        ctx.stroke();
        ctx.lineWidth = devicePixelRatio;
      });
      if (target) {
        const y = Math.round(plot.valToPos(target.value, "y", true));
        if (y >= top) {
          ctx.strokeStyle = css("--dead");
          ctx.setLineDash([6, 4]);
          ctx.beginPath();
          ctx.moveTo(left, y);
          ctx.lineTo(left + width, y);
          ctx.stroke();
        }
      }
      ctx.restore();
    };
    const plot = new Plot(
      {
        width: element.clientWidth, height,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
        scales: { y: { range: (_plot, _low, high) => [0, Math.max(high, target ? target.value * 1.1 : 0, 1) * 1.08] } },
        axes: [
          { ...axis, values: (_plot, values, _axis, _space, step) => values.map((value) => (step >= 86_400 ? day(value * 1000, zoneOf()).slice(5) : clock(value * 1000, zoneOf(), step < 60))), space: 70, size: 30 },
          { ...axis, size: 52, values: (_plot, values) => values.map((value) => unit(value)), space: 30 },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.label, stroke: css(line.color) || line.color, width: line.points ? 0 : (line.width ?? 1.5), dash: line.dash,
            points: line.points ? { show: !line.isCross, size: 5, fill: css(line.color) || line.color } : { show: !!line.isSparse, size: 4 }, spanGaps: !!line.isSparse, paths: line.points ? () => null : undefined,
          })),
        ],
        hooks: { draw: [drawMarks] },
      },
      [times.map((time) => time / 1000), ...lines.map((line) => line.values)] as uPlot.AlignedData,
      element,
    );
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    plot.over.append(tip);
    plot.hooks.setCursor = [(each) => {
      const index = each.cursor.idx;
      tip.hidden = index === null || index === undefined || each.cursor.left! < 0;
      if (tip.hidden) return;
      const parts = lines.filter((line) => line.values[index!] !== null && line.values[index!] !== undefined).map((line) => `${line.label} ${unit(line.values[index!]!)}`);
      tip.textContent = `${clock(times[index!], zoneOf())} · ${parts.join(" · ") || "nothing"}`;
      const isRight = each.cursor.left! > element.clientWidth / 2;
      tip.style.left = isRight ? "" : `${each.cursor.left! + 8}px`;
      tip.style.right = isRight ? `${plot.over.clientWidth - each.cursor.left! + 8}px` : "";
    }];
    if (onPick) plot.over.addEventListener("click", () => plot.cursor.idx != null && onPick(plot.cursor.idx));
    const watch = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [Plot, times, lines, turn, isTable, zone, height]);
  return (
    <figure class="chart" aria-label={`${title}. ${summary}`}>
      <div class="row chart-head">
        <span class="legend">
          {lines.map((line) => <span key={line.label}><i class={`swatch ${line.dash ? "dashed" : ""} ${line.isCross ? "cross" : line.points ? "dot" : ""}`} style={{ "--swatch": `var(${line.color})` }} />{line.label}</span>)}
          {target && <span><i class="swatch dashed" style={{ "--swatch": "var(--dead)" }} />{target.label}</span>}
        </span>
        <button type="button" class="plain small" aria-pressed={isTable} onClick={() => setTable(!isTable)}>{isTable ? "As a chart" : "As a table"}</button>
      </div>
      {isTable ? (
        <div class="scroll" tabIndex={0}>
          <table class="small-table">
            <thead><tr><th scope="col">Time</th>{lines.map((line) => <th scope="col" key={line.label}>{line.label}</th>)}</tr></thead>
            <tbody>{times.map((time, i) => <tr key={time}><th scope="row">{clock(time, zoneOf())}</th>{lines.map((line) => <td key={line.label}>{line.values[i] === null ? "–" : unit(line.values[i]!)}</td>)}</tr>)}</tbody>
          </table>
        </div>
      ) : <div ref={box} class="plot" style={{ height: `${height}px` }} aria-hidden="true" />}
      <figcaption class="dim">{summary}</figcaption>
    </figure>
  );
}
