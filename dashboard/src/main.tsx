import { render } from "preact";
import { needsKey } from "./lib/api";
import { startLive } from "./lib/live";
import { param, path, startRouting } from "./lib/route";
import { Alerts } from "./pages/alerts";
import { Audit } from "./pages/audit";
import { DeadLetters } from "./pages/dead";
import { EditJob } from "./pages/edit";
import { Forecast } from "./pages/forecast";
import { Import } from "./pages/import";
import { JobPage } from "./pages/job";
import { Jobs } from "./pages/jobs";
import { Overview } from "./pages/overview";
import { Queues } from "./pages/queues";
import { RunPage } from "./pages/run";
import { Runs } from "./pages/runs";
import { Settings } from "./pages/settings";
import { Workers } from "./pages/workers";
import { startCards } from "./parts/cards";
import { startKeys } from "./parts/keys";
import { Palette } from "./parts/palette";
import { Login, Shell } from "./parts/shell";
import { Empty, Notes } from "./parts/ui";
import { Asking } from "./parts/write";
import "./style.css";

/** Empty when the address is not well formed. */
function decoded(words: string[]): string[] {
  try {
    return words.map(decodeURIComponent);
  } catch {
    return [];
  }
}

function page() {
  const words = path.value.split("/").filter(Boolean);
  const [room, id, verb] = decoded(words);
  if (!words.length || room === "login") return <Overview />;
  // As it is spelt: a job called "new" is another one.
  if (words.join("/") === "jobs/new") return <EditJob key={`?${param("from")}`} />;
  if (room === "jobs" && id && verb === "edit") return <EditJob key={id} job={id} />;
  if (room === "jobs" && id) return <JobPage key={id} job={id} />;
  if (room === "jobs") return <Jobs />;
  if (room === "import") return <Import />;
  if (room === "runs" && id) return <RunPage key={id} run={id} />;
  if (room === "runs") return <Runs />;
  if (room === "dead-letters") return <DeadLetters />;
  if (room === "queues") return <Queues />;
  if (room === "workers") return <Workers />;
  if (room === "forecast") return <Forecast />;
  if (room === "alerts") return <Alerts />;
  if (room === "audit") return <Audit />;
  if (room === "settings") return <Settings />;
  return <Empty title="There is no such page"><a href="/">Go to the Overview</a></Empty>;
}

function App() {
  if (needsKey.value) return <Login />;
  return (
    <>
      <Shell>{page()}</Shell>
      <Palette />
      <Asking />
      <Notes />
    </>
  );
}

startRouting();
startKeys();
startCards();
startLive();
render(<App />, document.getElementById("app")!);
