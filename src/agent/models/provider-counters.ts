/**
 * What is counted of providers: the requests that they got, the answers that broke, where and why, and what became of those: read on, or
 * thrown away with their tokens, and after which time content came again.
 */
import type { Continued, ModelCall } from "../model.ts";
import type { BreakReport } from "./upstream/provider-break.ts";
import type { UpstreamWatch } from "./upstream/upstream-options.ts";

/** For what is counted. */
export interface TargetWatch extends UpstreamWatch {
  /** The step whose request this is has content. */
  readonly onContent?: (step: object) => void;
  /** A request of the step has failed, or its answer broke off. */
  readonly onLost?: (step: object) => void;
}

/** How an answer that was cut off or broke continues: read on at the provider, read again from the line, prefilled, or its step begun anew. */
export type ContinuedBy = "resume" | "replay" | "prefill" | "restart";

/** Whose model was asked; undefined where no name of it outlives this process. */
export type AskingStream = ModelCall["stream"];

/** For the log of a server. */
export interface ProviderNews {
  /** A provider's answer broke, or did not come. */
  readonly onBroke?:
    | ((provider: string, report: Pick<BreakReport, "phase" | "why">, stream: AskingStream) => void)
    | undefined;
  /** An answer that was cut off or broke continues in this way. */
  readonly onContinued?: ((how: ContinuedBy, stream: AskingStream) => void) | undefined;
}

/** Name, meaning and the counts by their labels. */
type Family = readonly [name: string, help: string, counts: ReadonlyMap<string, number>];

export class ProviderCounters {
  /** By provider: they are counted too often to make a label each time. */
  readonly #requests = new Map<string, number>();
  readonly #breaks = new Map<string, number>();
  /** What providers had counted of answers that did not become whole. */
  readonly #lostTokens = new Map<string, number>();
  readonly #continued = new Map<string, number>();
  readonly #saved = new Map<string, number>();
  readonly #silentSeconds = new Map<string, number>();
  readonly #silences = new Map<string, number>();
  readonly #left = new Map<string, number>();
  /** When the steps under way lost their answer, by what stands for the step. */
  readonly #lostMs = new WeakMap<object, number>();

  readonly #news: ProviderNews;

  constructor(news: ProviderNews = {}) {
    this.#news = news;
  }

  asked(provider: string): void {
    add(this.#requests, provider, 1);
  }

  watch(provider: string, stream?: AskingStream): TargetWatch {
    return {
      onBreak: (report) => {
        this.#broke(provider, report);
        this.#news.onBroke?.(provider, report, stream);
      },
      onResumed: (silentMs) => {
        add(this.#continued, `${labelOf(provider)},how="resume"`, 1);
        this.#news.onContinued?.("resume", stream);
        this.#heardAgain(provider, silentMs);
      },
      onSaved: () => add(this.#saved, `${labelOf(provider)},how="resume"`, 1),
      onLeft: () => add(this.#left, labelOf(provider), 1),
      onLost: (step) => {
        if (!this.#lostMs.has(step)) this.#lostMs.set(step, performance.now());
      },
      onContent: (step) => this.#heard(provider, step),
    };
  }

  #heard(provider: string, step: object): void {
    const lostMs = this.#lostMs.get(step);
    if (lostMs === undefined) return;
    this.#lostMs.delete(step);
    this.#heardAgain(provider, performance.now() - lostMs);
  }

  #heardAgain(provider: string, silentMs: number): void {
    const label = labelOf(provider);
    add(this.#silences, label, 1);
    add(this.#silentSeconds, label, Math.max(0, silentMs) / 1_000);
  }

  #broke(provider: string, { phase, why, tokens }: BreakReport): void {
    const label = labelOf(provider);
    add(this.#breaks, `${label},phase="${phase}",cause="${why}"`, 1);
    const lost = (tokens.input ?? 0) + (tokens.output ?? 0);
    if (phase !== "after_finish" && lost > 0) add(this.#lostTokens, label, lost);
  }

  /** An answer was cut off, or broke, and continued in this way. */
  continued(provider: string, how: Exclude<Continued, "left">, stream?: AskingStream): void {
    if (how === "unjoined" || how === "refused") return;
    if (how === "replay") add(this.#saved, `${labelOf(provider)},how="line"`, 1);
    const join = how === "prefill" ? ',join="proved"' : how === "unproved" ? ',join="unproved"' : "";
    const way = how === "unproved" ? "prefill" : how;
    add(this.#continued, `${labelOf(provider)},how="${way}"${join}`, 1);
    this.#news.onContinued?.(way, stream);
  }

  /** As Prometheus reads them. */
  metrics(): string {
    const families: readonly Family[] = [
      [
        "requests_total",
        "Requests for answers that were sent to providers.",
        new Map([...this.#requests].map(([provider, count]) => [labelOf(provider), count])),
      ],
      [
        "breaks_total",
        "Answers of providers that broke, by where and why; behind the finish marker nothing is lost.",
        this.#breaks,
      ],
      ["lost_tokens_total", "Tokens that providers had counted of answers that broke.", this.#lostTokens],
      [
        "continued_total",
        "Answers that were cut off or broke and continued: the same call read again or on, the text prefilled, or the step begun anew.",
        this.#continued,
      ],
      [
        "calls_saved_total",
        "Answers that are whole although they broke, by a model call that was not made again.",
        this.#saved,
      ],
      [
        "silence_seconds_total",
        "Seconds from breaks to the next content; divided by holdfast_provider_silences_total, the mean.",
        this.#silentSeconds,
      ],
      ["silences_total", "Breaks behind which content came again.", this.#silences],
      [
        "runs_left_total",
        "Runs that may have been left at providers: they could not be cancelled, or were cut off without a line.",
        this.#left,
      ],
    ];
    return families
      .flatMap(linesOf)
      .map((line) => `${line}\n`)
      .join("");
  }
}

function linesOf([name, help, counts]: Family): readonly string[] {
  const full = `holdfast_provider_${name}`;
  const lines = [...counts].map(([labels, count]) => `${full}{${labels}} ${count}`);
  return [`# HELP ${full} ${help}`, `# TYPE ${full} counter`, ...lines];
}

function add(counts: Map<string, number>, labels: string, count: number): void {
  counts.set(labels, (counts.get(labels) ?? 0) + count);
}

function labelOf(provider: string): string {
  const escaped = provider.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll("\n", String.raw`\n`);
  return `provider="${escaped}"`;
}
