/**
 * Checks what a JSON file says, field by field; every error names the file and the field.
 *
 * A field that nobody knows is refused, with the name that was probably meant: a mistyped setting that
 * does nothing would look like one that is on.
 */
import { dirname, resolve } from "node:path";
import { usageError } from "../node/failures.ts";

export class FieldCheck {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  object(value: unknown, name: string, known: readonly string[]): Readonly<Record<string, unknown>> {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw this.wrong(name === "" ? undefined : name, "is an object");
    }
    for (const field of Object.keys(value)) {
      if (!known.includes(field)) throw this.#unknown(name === "" ? field : `${name}.${field}`, field, known);
    }
    return { ...value };
  }

  text(value: unknown, name: string): string | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") throw this.wrong(name, "is text, and not empty");
    return value;
  }

  path(value: unknown, name: string): string | undefined {
    const text = this.text(value, name);
    return text === undefined ? undefined : resolve(dirname(this.#path), text);
  }

  whole(value: unknown, name: string, min: number, max: number): number | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max) {
      throw this.wrong(name, `is a whole number from ${min} to ${max}`);
    }
    return value;
  }

  yesOrNo(value: unknown, name: string): boolean | undefined {
    if (value === undefined || typeof value === "boolean") return value;
    throw this.wrong(name, "is true or false");
  }

  texts(
    value: unknown,
    name: string,
    objection: (text: string) => string | undefined = () => undefined,
  ): readonly string[] | undefined {
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw this.wrong(name, "is a list of texts");
    return value.map((item: unknown, at) => {
      const text = this.text(item, `${name}[${at}]`);
      if (text === undefined) throw this.wrong(`${name}[${at}]`, "is text, and not empty");
      const why = objection(text);
      if (why !== undefined) throw this.wrong(`${name}[${at}]`, why);
      return text;
    });
  }

  /** An object whose fields have names that the user chose. */
  named(value: unknown, name: string): readonly (readonly [string, unknown])[] {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw this.wrong(name, "is an object");
    }
    return Object.entries(value);
  }

  /** The error that names file and field. */
  wrong(name: string | undefined, what: string): Error {
    return usageError(`${this.#path}: ${name === undefined ? "the whole file" : `"${name}"`} ${what}`);
  }

  #unknown(name: string, field: string, known: readonly string[]): Error {
    if (/^api[-_]?key$/i.test(field)) {
      const remedy = known.includes("apiKeyEnv")
        ? 'name the environment variable that holds it in "apiKeyEnv"'
        : "set HOLDFAST_API_KEY, or run `holdfast keys create`";
      return usageError(`${this.#path}: "${name}" does not belong in a file; ${remedy}`);
    }
    const near = nearest(field, known);
    const hint = near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`;
    return usageError(`${this.#path}: "${name}" is not known; ${hint}`);
  }
}

type Said<Fields> = { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** Without the fields that are undefined, so that laying one over another takes only what was said. */
export function present<Fields extends object>(fields: Fields): Said<Fields>;
export function present(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** The known name that was probably meant. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((candidate) => ({ candidate, edits: editsBetween(name.toLowerCase(), candidate.toLowerCase()) }))
    .toSorted((a, b) => a.edits - b.edits);
  const best = ranked[0];
  return best !== undefined && best.edits <= Math.max(2, name.length / 3) ? best.candidate : undefined;
}

/** Levenshtein's distance. */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [at, letter] of a.split("").entries()) {
    const next = [at + 1];
    for (const [other, otherLetter] of b.split("").entries()) {
      const replaced = (row[other] ?? 0) + (letter === otherLetter ? 0 : 1);
      next.push(Math.min(replaced, (row[other + 1] ?? 0) + 1, (next[other] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
