/**
 * What is counted of providers: the requests that they got, and the answers that broke: where and why, and the tokens that were thrown away with them.
 */
import type { Continued } from "../model.ts";
import type { BreakReport } from "./upstream/provider-break.ts";

export class ProviderCounters {
  /** By provider. */
  readonly #requests = new Map<string, number>();
  /** By provider, phase and cause. */
  readonly #breaks = new Map<string, number>();
  /** By provider: what it had counted of answers that did not become whole. */
  readonly #lostTokens = new Map<string, number>();
  /** By provider, and how. */
  readonly #continued = new Map<string, number>();

  asked(provider: string): void {
    add(this.#requests, `provider="${escaped(provider)}"`, 1);
  }

  broke(provider: string, { phase, why, tokens }: BreakReport): void {
    add(this.#breaks, `provider="${escaped(provider)}",phase="${phase}",cause="${why}"`, 1);
    const lost = (tokens.input ?? 0) + (tokens.output ?? 0);
    if (phase !== "after_finish") add(this.#lostTokens, `provider="${escaped(provider)}"`, lost);
  }

  /** An answer was cut off, or broke, and continued in this way. */
  continued(provider: string, how: Continued): void {
    if (how === "unjoined" || how === "refused") return;
    const join = how === "prefill" ? ',join="proved"' : how === "unproved" ? ',join="unproved"' : "";
    const way = how === "unproved" ? "prefill" : how;
    add(this.#continued, `provider="${escaped(provider)}",how="${way}"${join}`, 1);
  }

  /** As Prometheus reads them. */
  metrics(): string {
    const lines = [
      "# HELP holdfast_provider_requests_total Requests for answers that were sent to providers.",
      "# TYPE holdfast_provider_requests_total counter",
      ...[...this.#requests].map(([labels, count]) => `holdfast_provider_requests_total{${labels}} ${count}`),
      "# HELP holdfast_provider_breaks_total Answers of providers that broke, by where and why; behind the finish marker nothing is lost.",
      "# TYPE holdfast_provider_breaks_total counter",
      ...[...this.#breaks].map(([labels, count]) => `holdfast_provider_breaks_total{${labels}} ${count}`),
      "# HELP holdfast_provider_lost_tokens_total Tokens that providers had counted of answers that broke.",
      "# TYPE holdfast_provider_lost_tokens_total counter",
      ...[...this.#lostTokens].map(
        ([labels, count]) => `holdfast_provider_lost_tokens_total{${labels}} ${count}`,
      ),
      "# HELP holdfast_provider_continued_total Answers that were cut off or broke and continued: the same call read again, the text prefilled, or the step begun anew.",
      "# TYPE holdfast_provider_continued_total counter",
      ...[...this.#continued].map(
        ([labels, count]) => `holdfast_provider_continued_total{${labels}} ${count}`,
      ),
    ];
    return `${lines.join("\n")}\n`;
  }
}

function add(counts: Map<string, number>, labels: string, count: number): void {
  counts.set(labels, (counts.get(labels) ?? 0) + count);
}

function escaped(text: string): string {
  return text
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
