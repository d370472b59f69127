/**
 * How options, flags, variables and config files are checked: rules say what is right, and the first thing that is not
 * becomes one sentence with the name of the field, what it must be, and what it is instead.
 *
 * The rules (`rules.ts`) are made of the words below. The message of each is the rest of a sentence that begins with the field's name, so that
 * the same rule can be said of a file, an option or a flag. A field that no schema has is refused: a mistyped setting that
 * does nothing would look like one that is on. What may be a secret is never repeated.
 */
import { firstChars } from "./characters.ts";
import { HoldfastError } from "./errors.ts";
import * as z from "./rules.ts";

/** How a field is called where the value comes from; the name is empty for the whole. */
type Naming = (name: string) => string;

/** An option of a function, or a variable: `stream.retry.baseMs`, `HOLDFAST_PORT`. */
const asOption: Naming = (name) => (name === "" ? "the options" : name);

/** Of a command: `retryLookbackWindowMs` is `--retry-lookback-window-ms`. One that is repeated has one name. */
export const asFlag: Naming = (name) =>
  `--${name.replace(/\[\d+\]$/, "").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

export const inFile =
  (path: string): Naming =>
  (name) =>
    `${path}: ${name === "" ? "the whole file" : `"${name}"`}`;

/** The value as the rule makes it. Throws `invalid_argument` with what is wrong first. */
export function checked<Of extends z.Rule>(
  rule: Of,
  value: unknown,
  naming: Naming = asOption,
): z.output<Of> {
  const result = z.safeParse(rule, value);
  if (result.success) return result.data;
  const { issues } = result;
  // A misspelt name explains what else is missing.
  const issue = issues.find(({ isUnknownName }) => isUnknownName) ?? issues[0];
  throw new HoldfastError("invalid_argument", issue === undefined ? "invalid" : sentenceOf(issue, naming));
}

function sentenceOf(issue: z.Issue, naming: Naming): string {
  const place = naming(nameOf(issue.path));
  if (issue.isUnknownName) return `${place} ${issue.message}`;
  if (issue.input === undefined) return `${place} is missing: it ${issue.message}`;
  return `${place} ${issue.message}${issue.isHidden ? "" : `, not ${shown(issue.input)}`}`;
}

function nameOf(path: readonly PropertyKey[]): string {
  return path
    .map((part, at) => (typeof part === "number" ? `[${part}]` : `${at === 0 ? "" : "."}${String(part)}`))
    .join("");
}

const SHOWN_CHARS_MAX = 80;

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value === "function") return "a function";
  if (typeof value === "object" && value !== null) return "an object";
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return firstChars(text, SHOWN_CHARS_MAX, "…");
}

/** Text that is not empty. */
export function text(what = "must be a text that is not empty") {
  return z.string({ error: what }).check(z.refine((said) => said.trim() !== "", { error: what }));
}

/** Text that passes a test. */
export function textThat(isRight: (said: string) => boolean, what: string) {
  return z.string({ error: what }).check(z.refine(isRight, { error: what }));
}

/** Text that is never repeated in a message, whatever it is: it may be a secret in the wrong place. */
export function secretThat(isRight: (said: string) => boolean, what: string) {
  return custom<string>((said) => typeof said === "string" && isRight(said), what, { isHidden: true });
}

/** Where a server is. A password in it would be logged and shown. */
export function httpUrl(remedy = "") {
  const isHttp = (said: string): boolean => /^https?:$/.test(URL.parse(said)?.protocol ?? "");
  const hasUser = (said: string): boolean => {
    const url = URL.parse(said);
    return url !== null && (url.username !== "" || url.password !== "");
  };
  return textThat((said) => hasUser(said) || isHttp(said), "must begin with http:// or https://").check(
    z.refine((said) => !hasUser(said), {
      error: `must not hold a user or password${remedy}`,
      params: { isHidden: true },
    }),
  );
}

export function whole(min: number, max = Number.MAX_SAFE_INTEGER) {
  const range = max === Number.MAX_SAFE_INTEGER ? `, at least ${min}` : ` from ${min} to ${max}`;
  return custom<number>(
    (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max,
    `must be a whole number${range}`,
  );
}

/** A whole number as a flag or a variable says it. */
export function wholeText(min: number, max = Number.MAX_SAFE_INTEGER) {
  const asNumber = z.transform((said: unknown) =>
    typeof said === "string" && /^\d{1,16}$/.test(said) ? Number(said) : said,
  );
  return z.pipe(asNumber, whole(min, max));
}

/** Any number from `least` on; infinity is one. */
export function numberFrom(least: number) {
  return custom<number>(
    (value) => typeof value === "number" && value >= least,
    `must be a number, at least ${least}`,
  );
}

/** Timers of browsers and of Node cannot wait longer: 24 days. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Milliseconds that a timer can wait. */
export function timerMs() {
  return custom<number>(
    (value) => typeof value === "number" && value >= 1 && value <= TIMER_MS_MAX,
    `must be a number of milliseconds, from 1 to ${TIMER_MS_MAX}`,
  );
}

export function yesOrNo() {
  return z.boolean({ error: "must be true or false" });
}

const YES_OR_NO: ReadonlyMap<unknown, boolean> = new Map([
  ["1", true],
  ["true", true],
  ["on", true],
  ["0", false],
  ["false", false],
  ["off", false],
]);

/** As a variable says it. */
export function yesOrNoText() {
  const asBoolean = z.transform((said: unknown) =>
    typeof said === "string" ? (YES_OR_NO.get(said.toLowerCase()) ?? said) : said,
  );
  return z.pipe(asBoolean, z.boolean({ error: "must be 1 or 0 (or true, false, on, off)" }));
}

/** A variable of the environment. An empty one is not set: that is how shells and compose files switch them off. */
export function variable<Output, Input>(rule: z.Rule<Output, Input>) {
  const asSet = z.transform((said: unknown) => (said === "" ? undefined : said));
  return z.optional(z.pipe(asSet, z.optional(rule)));
}

export function oneOf<const Choices extends readonly string[]>(choices: Choices) {
  return z.enum(choices, { error: `must be one of ${choices.join(", ")}` });
}

export function list<Output, Input>(item: z.Rule<Output, Input>, what = "must be a list") {
  return z.array(item, { error: what });
}

/** An object whose fields have names that the user chose. */
export function named<Output, Input>(value: z.Rule<Output, Input>, name: z.Rule<string> = z.string()) {
  return z.record(name, value, { error: "must be an object" });
}

/** An object with these fields and no others. `remedies`: what to say of a name that belongs elsewhere. */
export function fields<const Shape extends z.Shape>(
  shape: Shape,
  remedies: (name: string) => string | undefined = () => undefined,
) {
  const known = Object.keys(shape);
  return z.strictObject(shape, {
    error: "must be an object",
    unknown: (name) => remedies(name) ?? `is not known; ${hint(name, known)}`,
  });
}

/** A function of yours that is called later. */
export function callable<Call>() {
  return custom<Call>((value) => typeof value === "function", "must be a function");
}

/** An object of yours whose methods are called later. */
export function having<Value>(methods: readonly string[]) {
  const first = (value: unknown): string | undefined =>
    typeof value !== "object" || value === null
      ? "must be an object"
      : methods.filter((method) => typeof Reflect.get(value, method) !== "function").map(missing)[0];
  return z.custom<Value>((value) => first(value) === undefined, {
    error: (issue) => first(issue.input) ?? "must be an object",
    params: { isHidden: true },
  });
}

function missing(method: string): string {
  return `must have a function ${method}`;
}

/** A rule that has no word here. */
export function custom<Value>(
  isRight: (value: unknown) => boolean,
  what: string,
  params: { readonly isHidden?: boolean } = {},
) {
  return z.custom<Value>(isRight, { error: what, params });
}

function hint(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  return near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`;
}

/** The known name that was probably meant. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const [best] = known.toSorted((one, other) => apart(name, one) - apart(name, other));
  return best !== undefined && apart(name, best) <= Math.max(2, name.length / 3) ? best : undefined;
}

/** How long they are between the beginning and the end that they have in common. */
function apart(one: string, other: string): number {
  const [a, b] = [one.toLowerCase(), other.toLowerCase()];
  const length = Math.min(a.length, b.length);
  let head = 0;
  while (head < length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  return Math.max(a.length, b.length) - head - tail;
}
