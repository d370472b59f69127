/**
 * What a provider says went wrong, out of the shapes in which they say it: code names, a status, some words.
 *
 * Reading only; what follows from it is decided in `failures.ts`.
 */
import { fieldsOf } from "../../protocol/fields.ts";
import { durationMs } from "./retry-after.ts";

export interface ProviderError {
  /** Types, codes and reasons: whatever is a name and no sentence. */
  readonly codes: readonly string[];
  /** 0 when it was not said. */
  readonly status: number;
  readonly words: string;
  readonly retryAfterMs: number | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Takes `{ error: { message, type, code, status, details } }`, what is inside of it, and the SDK's form of an error
 * within a stream (`{ message, statusCode, data }`).
 */
export function readProviderError(value: unknown): ProviderError {
  if (typeof value === "string") return { codes: [], status: 0, words: value, retryAfterMs: undefined };
  const outer = fieldsOf(value);
  const data = fieldsOf(outer["data"]);
  const inner = firstFilled(fieldsOf(data["error"]), data, fieldsOf(outer["error"]), outer);
  const details = Array.isArray(inner["details"]) ? inner["details"].map(fieldsOf) : [];
  const named = [outer["type"], outer["code"], inner["type"], inner["code"], inner["status"]];
  const reasons = details.map((detail) => detail["reason"]);
  return {
    codes: [...named, ...reasons].filter((code) => typeof code === "string"),
    status: firstStatus(outer["statusCode"], outer["status"], inner["code"], inner["status"]),
    words: firstText(inner["message"], outer["message"], outer["error"], outer["detail"]),
    retryAfterMs: details.map((detail) => durationMs(detail["retryDelay"])).find((ms) => ms !== undefined),
  };
}

function firstFilled(...candidates: readonly Fields[]): Fields {
  return candidates.find((fields) => Object.keys(fields).length > 0) ?? {};
}

function firstText(...candidates: readonly unknown[]): string {
  return candidates.find((text) => typeof text === "string" && text !== "")?.toString() ?? "";
}

function firstStatus(...candidates: readonly unknown[]): number {
  const status = candidates.find((code) => typeof code === "number" && code >= 400 && code < 600);
  return typeof status === "number" ? status : 0;
}
