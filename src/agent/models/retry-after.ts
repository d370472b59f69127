/**
 * How long a provider asks us to wait: one number out of the ways in which they say it.
 */

/** A header such as `retry-after: 20`, an HTTP date, or OpenAI's `retry-after-ms`. Names are in lower case. */
export function retryAfterMs(
  headers: Readonly<Record<string, string>> | undefined,
  nowMs: number,
): number | undefined {
  const exact = numberOf(headers?.["retry-after-ms"]);
  if (exact !== undefined) return exact;
  const said = headers?.["retry-after"];
  const seconds = numberOf(said);
  if (seconds !== undefined) return seconds * 1_000;
  const dateMs = said === undefined ? Number.NaN : Date.parse(said);
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - nowMs);
}

/** Google's way: a duration such as "34.5s" among the details of the error. */
export function durationMs(text: unknown): number | undefined {
  const seconds = typeof text === "string" ? /^(?<seconds>\d{1,6}(?:\.\d{1,9})?)s$/.exec(text) : null;
  return seconds === null ? undefined : Math.ceil(Number(seconds.groups?.["seconds"]) * 1_000);
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d{1,9}(?:\.\d{1,9})?\s*$/.test(text) ? Number(text) : undefined;
}
