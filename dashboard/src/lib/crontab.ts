// A crontab taken apart: which words are the time, which the command. What a time means only the server says. The rules
// are those of `horae import crontab`; what needs more than them is left to it, with a word why.
export type Entry = { line: number; text: string; schedule: string; zone: string; job: Record<string, unknown> | null; notes: string[]; refusal: string };

const MACROS = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const SETTING = /^("[^"]*"|'[^']*'|[A-Za-z_]\w*)\s*=\s*(.*)$/;
const WRAPPERS = new Set("sudo nice ionice nohup env exec time timeout flock chronic sh bash python python3 perl ruby php node cd test [ command".split(" "));
const bare = (text: string) => (/^(["']).*\1$/.test(text) && text.length > 1 ? text.slice(1, -1) : text);

export function readCrontab(text: string, zone: string): Entry[] {
  const state = { zone, shell: "", env: {} as Record<string, string>, comment: [] as string[], other: "" };
  const entries: Entry[] = [];
  const taken = new Set<string>();
  text.split("\n").forEach((raw, i) => {
    const line = raw.trim();
    if (!line) state.comment = [];
    else if (line.startsWith("#")) state.comment.push(line.replace(/^[#\s]+/, ""));
    else if (SETTING.test(line) && !/^[*@\d-]/.test(line)) {
      const [, name, value] = SETTING.exec(line)!.map(bare);
      if (name === "CRON_TZ") state.zone = value;
      else if (name === "SHELL") state.shell = value;
      else if (name === "RANDOM_DELAY" || name === "START_HOURS_RANGE") state.other = name;
      else if (!name.startsWith("MAIL")) state.env[name] = value;
    } else {
      entries.push(entryOf(line, i + 1, state, taken));
      state.comment = [];
    }
  });
  return entries;
}

type State = { zone: string; shell: string; env: Record<string, string>; comment: string[]; other: string };

function entryOf(text: string, line: number, state: State, taken: Set<string>): Entry {
  const entry: Entry = { line, text, schedule: "", zone: state.zone, job: null, notes: [], refusal: "" };
  const words = text.replace(/^-/, "").split(/\s+/);
  const fields = text.startsWith("@") ? 1 : 5;
  const rest = text.replace(/^-/, "").replace(new RegExp(`^(\\S+\\s+){${fields}}`), "");
  entry.schedule = words.slice(0, fields).join(" ");
  if (text.startsWith("@")) {
    const word = words[0].toLowerCase();
    entry.schedule = /^@\d+$/.test(word) ? `@every ${word.slice(1)}s` : word === "@every_minute" ? "* * * * *" : word;
    if (word === "@reboot") entry.refusal = "@reboot has no time: a job belongs to no machine. Use the machine’s service manager.";
    else if (!MACROS.includes(word) && entry.schedule === word) entry.refusal = `${word} is not known.`;
  } else if (entry.schedule.includes("~")) entry.refusal = "~ draws a value at random: the command line turns it into one that stays.";
  if (!entry.refusal && state.other) entry.refusal = `${state.other} above it: the command line takes it over.`;
  if (!entry.refusal && words.length <= fields) entry.refusal = fields === 5 ? "needs five fields and a command." : "has no command.";
  if (!entry.refusal && /(^|[^\\])%/.test(rest)) entry.refusal = "has a bare %: cron ends the command there and hands it the rest as standard input. Write \\% for a percent sign; horae import crontab takes the line as it is.";
  if (entry.refusal) return entry;
  const command = rest.replaceAll("\\%", "%");
  if (/^(root|nobody|daemon|www-data|postgres|mysql|nginx|apache)\s+\S/.test(rest)) entry.notes.push("begins with the name of a user: a system table? Then use the command line with --system");
  const env = Object.keys(state.env).length ? { env: { ...state.env } } : {};
  entry.job = {
    name: unique(slug(rest), taken), schedule: entry.schedule, timezone: state.zone, type: "shell",
    target: { command: state.shell ? [state.shell, "-c", command] : command, ...env, ...(state.env.HOME ? { cwd: state.env.HOME } : {}) },
    // As cron does it: no repeats, nothing made up for, no limit that bites.
    retry: { max_retries: 0 }, misfire: { policy: "skip" }, timeout: "24h", labels: { imported: "crontab" }, description: state.comment.join(" ").slice(0, 500),
  };
  return entry;
}

/** A name from what is run: the first word that says something. */
function slug(command: string): string {
  const words = command.replace(/^\s*cd\s+\S+\s*(&&|;)/, "").split(/[\s;&|<>()'"%]+/).filter((word) => word && !/^[-$]/.test(word) && !word.includes("="));
  const names = words.map((word) => word.replace(/\/+$/, "").split("/").at(-1) ?? "");
  const chosen = names.find((name) => name && !WRAPPERS.has(name) && !/^\d+$/.test(name)) ?? names[0] ?? "job";
  return chosen.toLowerCase().replace(/\.(sh|py|pl|rb|php|js)$/, "").replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "job";
}

function unique(name: string, taken: Set<string>): string {
  let made = name;
  for (let n = 2; taken.has(made); n += 1) made = `${name}-${n}`;
  taken.add(made);
  return made;
}
