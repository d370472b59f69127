/**
 * Reads a JSON body field by field; an error names the path of the field (`messages[3].content`).
 *
 * `null` and absent are the same: clients send both for what they do not want.
 */
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import { type GatewayError, invalidRequest } from "./gateway-error.ts";

export class Fields {
  readonly path: string;
  readonly #object: JsonObject;

  /** Throws when the value is no object. */
  constructor(value: unknown, path: string) {
    if (!isJsonObject(value)) {
      throw invalidRequest(path, `${path === "" ? "the body" : path} must be a JSON object`);
    }
    this.#object = value;
    this.path = path;
  }

  pathOf(name: string): string {
    return this.path === "" ? name : `${this.path}.${name}`;
  }

  get names(): readonly string[] {
    return Object.keys(this.#object);
  }

  has(name: string): boolean {
    return this.raw(name) !== undefined;
  }

  /** As the parser made it; undefined for null. */
  raw(name: string): JsonObject[string] | undefined {
    const value = Object.hasOwn(this.#object, name) ? this.#object[name] : undefined;
    return value === null ? undefined : value;
  }

  text(name: string): string | undefined {
    const value = this.raw(name);
    if (value === undefined || typeof value === "string") return value;
    throw this.wrong(name, "must be a string");
  }

  textOr(name: string, fallback: string): string {
    return this.text(name) ?? fallback;
  }

  needText(name: string): string {
    const value = this.text(name);
    if (value === undefined || value === "") throw this.wrong(name, "must be given, as a string");
    return value;
  }

  flag(name: string): boolean | undefined {
    const value = this.raw(name);
    if (value === undefined || typeof value === "boolean") return value;
    throw this.wrong(name, "must be true or false");
  }

  number(name: string, min: number, max: number): number | undefined {
    const value = this.raw(name);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !(value >= min && value <= max)) {
      throw this.wrong(name, `must be a number from ${min} to ${max}`);
    }
    return value;
  }

  whole(name: string, min: number, max: number): number | undefined {
    const value = this.number(name, min, max);
    if (value === undefined || Number.isInteger(value)) return value;
    throw this.wrong(name, `must be a whole number from ${min} to ${max}`);
  }

  object(name: string): Fields | undefined {
    const value = this.raw(name);
    return value === undefined ? undefined : new Fields(value, this.pathOf(name));
  }

  needObject(name: string): Fields {
    return new Fields(this.raw(name), this.pathOf(name));
  }

  list(name: string): readonly unknown[] | undefined {
    const value = this.raw(name);
    if (value === undefined || Array.isArray(value)) return value;
    throw this.wrong(name, "must be a list");
  }

  objects(name: string): readonly Fields[] | undefined {
    return this.list(name)?.map((item, at) => new Fields(item, `${this.pathOf(name)}[${at}]`));
  }

  wrong(name: string, what: string): GatewayError {
    return invalidRequest(this.pathOf(name), `${this.pathOf(name)} ${what}`);
  }

  /** For what OpenAI has and we do not: said, never ignored, when ignoring it would change the answer. */
  unsupported(name: string, what: string): GatewayError {
    return invalidRequest(this.pathOf(name), `${this.pathOf(name)}: ${what}`, "unsupported_value");
  }
}
