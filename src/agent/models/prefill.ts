/**
 * Which models write on behind a text that they get as the beginning of their answer, and in which form each of them gets it.
 *
 * Nothing says so in advance for sure. A provider's kind gives a first guess; what a model does with it is remembered while this process
 * lives: one that refuses, or begins its answer anew, is not asked a second time.
 *
 * Invariant: a model that was seen to begin anew is never asked to continue (G1 is the turn's: it checks every join).
 */
import type { StepOptions } from "../../protocol/messages.ts";
import { type Prefills, RESTART_ONLY, type Ways } from "../../turn/found.ts";
import type { Continued } from "../model.ts";
import type { Dialect } from "./dialect.ts";
import type { AskingStream, ProviderCounters } from "./provider-counters.ts";
import { type Provider, split } from "./providers.ts";
import { remember } from "./remembered.ts";

/**
 * `fields`: `continue_final_message` and `add_generation_prompt`, for vLLM, SGLang and tabbyAPI; llama.cpp needs and heeds neither.
 * `prefix`: a word in the message, for DeepSeek and Mistral. `plain`: an answer at the end of the conversation is continued as it is.
 */
const PREFILL_FORMS = ["fields", "prefix", "plain"] as const;
export type PrefillForm = (typeof PREFILL_FORMS)[number];

export const PREFILL_RULES = ["auto", "off", ...PREFILL_FORMS] as const;
export type PrefillRule = (typeof PREFILL_RULES)[number];

interface Prefilling {
  readonly dialect: Dialect;
  readonly baseURL: string;
  readonly prefill?: PrefillRule | undefined;
}

/** Claude continues its answer up to 4.5; later ones refuse. */
const OLD_CLAUDE = /claude-(?:[23]|instant|(?:opus|sonnet|haiku)-4(?:-[0-5](?!\d)|-\d{8}|$))/;

/** Undefined: the model is not asked to. */
export function prefillFormOf(provider: Prefilling, model: string): PrefillForm | undefined {
  const { dialect, baseURL, prefill = "auto" } = provider;
  if (prefill === "off") return undefined;
  if (prefill !== "auto") return prefill;
  switch (dialect) {
    case "openai":
    case "google":
      return undefined;
    case "anthropic":
      return OLD_CLAUDE.test(model) ? "plain" : undefined;
    case "openai-compatible": {
      const host = URL.canParse(baseURL) ? new URL(baseURL).hostname : "";
      if (/(?:^|\.)(?:deepseek\.com|mistral\.ai)$/.test(host)) return "prefix";
      return /(?:^|\.)openai\.com$/.test(host) ? undefined : "fields";
    }
  }
}

/** What may be done about the broken answers of all models, and what was. */
export class Continuations {
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #counters: ProviderCounters;
  readonly #learned = new Map<string, Prefills>();

  constructor(providers: ReadonlyMap<string, Provider>, counters: ProviderCounters) {
    this.#providers = providers;
    this.#counters = counters;
  }

  /** Of a model by its id, `provider/model`. */
  waysOf(id: string, options: StepOptions | undefined): Ways {
    const [name, model] = split(id);
    const provider = this.#providers.get(name);
    if (provider === undefined || provider === "rehearsal") return RESTART_ONLY;
    const { continues = "exact", dialect } = provider;
    // What Claude thinks cannot be a part of what it is given.
    const thinks = dialect === "anthropic" && (options?.reasoningEffort ?? "none") !== "none";
    const mayPrefill = !thinks && prefillFormOf(provider, model) !== undefined;
    return { continues, prefills: mayPrefill ? (this.#learned.get(id) ?? "untried") : "no" };
  }

  note(id: string, how: Continued, stream?: AskingStream): void {
    const [name] = split(id);
    const provider = this.#providers.get(name);
    if (how === "left") {
      if (provider !== "rehearsal" && provider?.resume === true) this.#counters.watch(name).onLeft?.();
      return;
    }
    if (how === "prefill") remember(this.#learned, id, "proved");
    // One that has proved a join before is asked with all of the text before it is given up.
    if (how === "refused" || (how === "unjoined" && this.#learned.get(id) !== "proved"))
      remember(this.#learned, id, "no");
    this.#counters.continued(name, how, stream);
  }
}
