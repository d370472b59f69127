/** `npm run ways`: every break of every kind of provider, held against the table. */
import { parse } from "../../../scripts/arguments.ts";
import { everyCase, nameOf, runWays, SLOW } from "./run.ts";

const HELP = `npm run ways -- [options]
  --only TEXT       only cases whose name has this in it, such as "vLLM" or "utf8 behind event 4"
  --help            this text`;

const AT_ONCE = 4;
const SLOW_AT_ONCE = 24;

const values = parse(
  { only: { type: "string", default: "" }, help: { type: "boolean", default: false } },
  HELP,
);

if (values.help) process.stdout.write(`${HELP}\n`);
else {
  const cases = everyCase().filter((one) => nameOf(one).includes(values.only));
  const slow = cases.filter(({ how }) => SLOW.has(how));
  const quick = cases.filter(({ how }) => !SLOW.has(how));
  const failures = [...(await runWays(quick, AT_ONCE)), ...(await runWays(slow, SLOW_AT_ONCE))];
  for (const failure of failures) process.stdout.write(`${failure}\n\n`);
  process.stdout.write(`${cases.length} breaks, ${failures.length} against the table\n`);
  if (failures.length > 0) process.exit(1);
}
