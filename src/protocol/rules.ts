/**
 * Rules for values that came from outside of the types: what a value must be, and what is wrong with one that is not.
 *
 * The names and the ways are those of `zod/mini`, of which this is the part that options, flags, variables, files and messages between tabs need. Browsers load
 * it with the client, where zod was a seventh of all bytes. Stored rows and the arguments of tools, which only Node reads, are checked by zod itself.
 *
 * Invariant: a value that comes out of `safeParse` has passed every rule; nothing of it is taken over unchecked.
 */

export interface Issue {
  readonly message: string;
  /** From the value that was checked to the one that is wrong. */
  readonly path: readonly PropertyKey[];
  readonly input: unknown;
  /** A name that no rule has; the path ends with it. */
  readonly isUnknownName?: boolean;
  /** The value is not to be repeated. */
  readonly isHidden?: boolean;
  /** The type is right, and only a check said no. */
  readonly isOfType?: boolean;
}

type Message = string | ((issue: { readonly input: unknown }) => string);
interface Params {
  readonly error?: Message;
  readonly params?: { readonly isHidden?: boolean };
}

interface Payload<Value> {
  readonly value: Value;
  readonly issues: Issue[];
}
type Check<Value> = (payload: Payload<Value>) => void;

/** Whether a field may be left out: of what comes in, and then also of what comes out. */
type Presence = "required" | "defaulted" | "optional";
type Run = (value: unknown, issues: Issue[]) => unknown;

export class Rule<Output = unknown, Input = Output, Given extends Presence = Presence> {
  declare readonly output: Output;
  declare readonly input: Input;
  declare readonly given: Given;
  readonly run: Run;
  /** What an object says when the field is not there at all; false when there is nothing to be said. */
  readonly mayBeAbsent: boolean;

  constructor(run: Run, mayBeAbsent = false) {
    this.run = run;
    this.mayBeAbsent = mayBeAbsent;
  }

  /** The same, and then the checks, up to the first one that finds something. */
  check(...checks: readonly Check<Output>[]): Rule<Output, Input, Given>;
  check(...checks: readonly ((payload: never) => void)[]): Rule {
    return new Rule((given, issues) => {
      const before = issues.length;
      const value = this.run(given, issues);
      for (const check of checks)
        if (issues.length === before) Reflect.apply(check, undefined, [{ value, issues }]);
      return value;
    }, this.mayBeAbsent);
  }
}

export type output<Of extends Rule> = Of["output"];
export type input<Of extends Rule> = Of["input"];

export function safeParse<Of extends Rule>(
  rule: Of,
  value: unknown,
):
  | { readonly success: true; readonly data: output<Of> }
  | { readonly success: false; readonly data?: undefined; readonly issues: readonly Issue[] };
export function safeParse(rule: Rule, value: unknown): unknown {
  const issues: Issue[] = [];
  const data = rule.run(value, issues);
  return issues.length === 0 ? { success: true, data } : { success: false, issues };
}

function issueOf(value: unknown, { error = "is not right", params }: Params, isOfType = false): Issue {
  const message = typeof error === "string" ? error : error({ input: value });
  return { message, path: [], input: value, isHidden: params?.isHidden === true, isOfType };
}

function fitting<Value>(
  isRight: (value: unknown) => boolean,
  params: Params,
  isOfType: boolean,
): Rule<Value, Value, "required"> {
  return new Rule((value, issues) => {
    if (!isRight(value)) issues.push(issueOf(value, params, isOfType));
    return value;
  });
}

/** Any value that passes; every value when there is no test. As in zod, its type is whatever was given. */
export function custom<Value>(
  isRight: (value: unknown) => boolean = () => true,
  params: Params = {},
): Rule<Value, Value, "required"> {
  return fitting(isRight, params, true);
}

export function refine<Value>(
  isRight: (value: Value) => boolean,
  params: Params & { readonly path?: readonly PropertyKey[] },
): Check<Value> {
  return ({ value, issues }) => {
    if (!isRight(value)) issues.push({ ...issueOf(value, params, true), path: params.path ?? [] });
  };
}

interface Sized {
  readonly length: number;
}
export function minLength(length: number, params: Params = {}): Check<Sized> {
  return refine((value) => value.length >= length, params);
}
export function maxLength(length: number, params: Params = {}): Check<Sized> {
  return refine((value) => value.length <= length, params);
}

export const string = (params: Params = {}) =>
  fitting<string>((value) => typeof value === "string", params, false);
export const number = (params: Params = {}) =>
  fitting<number>((value) => Number.isFinite(value), params, false);
export const boolean = (params: Params = {}) =>
  fitting<boolean>((value) => typeof value === "boolean", params, false);

export function literal<const Value>(wanted: Value, params: Params = {}): Rule<Value, Value, "required"> {
  return fitting((value) => value === wanted, params, false);
}

function oneOf<const Values extends readonly string[]>(values: Values, params: Params = {}) {
  const known: ReadonlySet<unknown> = new Set(values);
  return fitting<Values[number]>((value) => known.has(value), params, false);
}
export { oneOf as enum };

export function optional<Output, Input>(
  rule: Rule<Output, Input>,
): Rule<Output | undefined, Input | undefined, "optional"> {
  return new Rule((value, issues) => (value === undefined ? undefined : rule.run(value, issues)), true);
}

/** May be left out, and may not be undefined. */
export function exactOptional<Output, Input>(rule: Rule<Output, Input>): Rule<Output, Input, "optional"> {
  return new Rule(rule.run, true);
}

/** What comes out when nothing is given. */
export function _default<Output, Input>(
  rule: Rule<Output, Input>,
  value: Output,
): Rule<Output, Input | undefined, "defaulted"> {
  return new Rule((given, issues) => (given === undefined ? value : rule.run(given, issues)));
}

/** What is checked when nothing is given. */
export function prefault<Output, Input>(
  rule: Rule<Output, Input>,
  value: Input,
): Rule<Output, Input | undefined, "defaulted"> {
  return new Rule((given, issues) => rule.run(given === undefined ? value : given, issues));
}

export function readonly<Output extends object, Input>(
  rule: Rule<Output, Input>,
): Rule<Readonly<Output>, Input, "required"> {
  return new Rule((value, issues) => Object.freeze(rule.run(value, issues)));
}

export function transform<Input, Output>(change: (value: Input) => Output): Rule<Output, Input, "required">;
export function transform(change: (value: unknown) => unknown): Rule {
  return new Rule((value) => change(value));
}

export function pipe<Middle, Output, Input>(
  first: Rule<Middle, Input>,
  second: Rule<Output, Middle>,
): Rule<Output, Input, "required"> {
  return new Rule((given, issues) => {
    const before = issues.length;
    const value = first.run(given, issues);
    return issues.length === before ? second.run(value, issues) : value;
  });
}

/** The first rule that fits. When none does, and one found the right type, what that one says. */
export function union<const Rules extends readonly Rule[]>(
  rules: Rules,
  params: Params = {},
): Rule<output<Rules[number]>, input<Rules[number]>, "required"> {
  return new Rule((value, issues) => {
    const found: Issue[][] = [];
    for (const rule of rules) {
      const own: Issue[] = [];
      const result = rule.run(value, own);
      if (own.length === 0) return result;
      found.push(own);
    }
    const near = found.filter((own) => own.every(({ isOfType }) => isOfType));
    const [only] = near;
    if (near.length === 1 && only !== undefined) issues.push(...only);
    else issues.push({ ...issueOf(value, params), isHidden: true });
    return value;
  });
}

function below(rule: Rule, value: unknown, key: PropertyKey, issues: Issue[]): unknown {
  const own: Issue[] = [];
  const result = rule.run(value, own);
  for (const issue of own) issues.push({ ...issue, path: [key, ...issue.path] });
  return result;
}

export function array<Output, Input>(
  item: Rule<Output, Input>,
  params: Params = {},
): Rule<Output[], Input[], "required"> {
  return new Rule((value, issues) => {
    if (Array.isArray(value)) return value.map((each, at) => below(item, each, at, issues));
    issues.push(issueOf(value, params));
    return value;
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Not of a class: of one, such as a date, the names would not be all that it is. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** An object with any names that pass. */
export function record<Output, Input>(
  name: Rule<string>,
  rule: Rule<Output, Input>,
  params: Params = {},
): Rule<Record<string, Output>, Record<string, Input>, "required"> {
  return new Rule((value, issues) => {
    if (!isObject(value) || !isPlain(value)) {
      issues.push(issueOf(value, params));
      return value;
    }
    const result: Record<string, unknown> = {};
    // Set as a field, this one would be the prototype.
    for (const key of Object.keys(value).filter((each) => each !== "__proto__")) {
      const own: Issue[] = [];
      name.run(key, own);
      const [wrong] = own;
      if (wrong !== undefined) issues.push({ ...wrong, path: [key], isHidden: true });
      else result[key] = below(rule, value[key], key, issues);
    }
    return result;
  });
}

export type Shape = Readonly<Record<string, Rule>>;
type Flat<Type> = { [Name in keyof Type]: Type[Name] };
type Names<Of extends Shape, Given> = {
  [Name in keyof Of]: Of[Name]["given"] extends Given ? Name : never;
}[keyof Of];
type OutputOf<Of extends Shape> = Flat<
  { [Name in Exclude<keyof Of, Names<Of, "optional">>]: Of[Name]["output"] } & {
    [Name in Names<Of, "optional">]?: Of[Name]["output"];
  }
>;
type InputOf<Of extends Shape> = Flat<
  { [Name in Names<Of, "required">]: Of[Name]["input"] } & {
    [Name in Exclude<keyof Of, Names<Of, "required">>]?: Of[Name]["input"];
  }
>;

/** An object with these fields; others are left out of what comes out. */
export function object<const Of extends Shape>(
  shape: Of,
  params?: Params,
): Rule<OutputOf<Of>, InputOf<Of>, "required"> {
  return objectRule(shape, params ?? {}, undefined);
}

/** An object with these fields and no others. */
export function strictObject<const Of extends Shape>(
  shape: Of,
  params: Params & { readonly unknown?: (name: string) => string } = {},
): Rule<OutputOf<Of>, InputOf<Of>, "required"> {
  return objectRule(shape, params, params.unknown ?? (() => "is not known"));
}

function objectRule<Output, Input>(
  shape: Shape,
  params: Params,
  unknown: ((name: string) => string) | undefined,
): Rule<Output, Input, "required"> {
  return new Rule((value, issues) => {
    if (!isObject(value)) {
      issues.push(issueOf(value, params));
      return value;
    }
    const result: Record<string, unknown> = {};
    for (const [name, rule] of Object.entries(shape)) {
      if (rule.mayBeAbsent && !(name in value)) continue;
      const field = below(rule, value[name], name, issues);
      if (field !== undefined || name in value) result[name] = field;
    }
    const name = unknown && Object.keys(value).find((each) => !Object.hasOwn(shape, each));
    if (name !== undefined && unknown !== undefined) {
      issues.push({ message: unknown(name), path: [name], input: value[name], isUnknownName: true });
    }
    return result;
  });
}

/** The one of these objects whose field of that name is a literal that fits. */
export function discriminatedUnion<const Rules extends readonly Rule[]>(
  discriminator: string,
  rules: Rules,
  params: Params = {},
): Rule<output<Rules[number]>, input<Rules[number]>, "required"> {
  return new Rule((value, issues) => {
    if (!isObject(value)) {
      issues.push(issueOf(value, params));
      return value;
    }
    for (const rule of rules) {
      const own: Issue[] = [];
      const result = rule.run(value, own);
      if (own.some(({ path }) => path.length === 1 && path[0] === discriminator)) continue;
      issues.push(...own);
      return result;
    }
    issues.push({ ...issueOf(value, params), path: [discriminator], isHidden: true });
    return value;
  });
}
