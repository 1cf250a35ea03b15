// Shapes that can be told apart at 12 px and without colour.
import type { Shape } from "../lib/words";

const PATHS: Record<Shape, preact.JSX.Element> = {
  clock: <><circle cx="8" cy="8" r="6" /><path d="M8 4.5V8l2.5 1.5" /></>,
  bars: <path d="M2.5 4h11M2.5 8h11M2.5 12h11" />,
  ring: <path d="M8 2a6 6 0 1 1-6 6" />,
  again: <path d="M13 8a5 5 0 1 1-1.5-3.6M12 1.5v3.2H8.8" />,
  tick: <path d="M2.5 8.5l3.5 3.5 7.5-8" />,
  cross: <path d="M3.5 3.5l9 9M12.5 3.5l-9 9" />,
  boxcross: <><rect x="1.8" y="1.8" width="12.4" height="12.4" rx="1.5" /><path d="M5.3 5.3l5.4 5.4M10.7 5.3l-5.4 5.4" /></>,
  stop: <><circle cx="8" cy="8" r="6" /><path d="M3.8 12.2l8.4-8.4" /></>,
  skip: <path d="M2.5 3.5L7 8l-4.5 4.5M8 3.5L12.5 8 8 12.5" />,
  broken: <path d="M5 2.8A6 6 0 0 0 5 13.2M11 2.8a6 6 0 0 1 0 10.4M8 6v4" />,
  pause: <path d="M5 3v10M11 3v10" />,
  question: <path d="M5.5 6a2.5 2.5 0 1 1 3.6 2.2C8.3 8.7 8 9 8 10M8 12.8v.2" />,
};

export function Icon({ shape, size = 14 }: { shape: Shape; size?: number }) {
  return (
    <svg class={`icon icon-${shape}`} width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      {PATHS[shape]}
    </svg>
  );
}
