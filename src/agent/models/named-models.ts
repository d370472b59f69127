/**
 * What OpenAI-compatible providers say they have, and why one has said nothing.
 *
 * A provider that does not answer keeps its place: `provider/default` stands for its first model, and each call to it asks the
 * provider anew. So such a call fails with the provider's own error while it is away, and works once it answers.
 *
 * Invariant: no provider's place is taken by another, least of all by the rehearsal.
 */
import { ModelFailure } from "../model.ts";
import { ANSWER_MS_MAX, discoverNames } from "./discovery.ts";
import { judge } from "./failures.ts";
import { cleanedWords } from "./provider-words.ts";
import { apiKeyOf, type Environment, type Fetch, type HttpProvider, secretsOf } from "./providers.ts";

/** A model name that stands for the first one of a provider. */
export const FIRST = "default";
/** So often at the most a provider that did not answer is asked again for a list. */
const AGAIN_MS = 2_000;

interface Asked {
  readonly names: readonly string[];
  readonly failure: ModelFailure | undefined;
}

interface NamedModelsOptions {
  readonly providers: ReadonlyMap<string, HttpProvider>;
  readonly environment: Environment;
  readonly fetch: Fetch;
}

export class NamedModels {
  readonly #options: NamedModelsOptions;
  readonly #asked = new Map<string, Asked>();
  #again: Promise<unknown> | undefined;
  #askedMs = Number.NEGATIVE_INFINITY;
  /** How often a provider has said what it has. */
  changes = 0;

  constructor(options: NamedModelsOptions) {
    this.#options = options;
  }

  /** Empty for a provider that names none, or has not answered yet. */
  of(provider: string): readonly string[] {
    return this.#asked.get(provider)?.names ?? [];
  }

  /**
   * Why providers that were asked have named no models, in sentences. One that answered and names none is no trouble where
   * the configuration names a model of it.
   */
  troubles(isConfigured: (provider: string) => boolean): readonly string[] {
    return [...this.#asked].flatMap(([provider, { names, failure }]) => {
      if (names.length > 0) return [];
      if (failure !== undefined) return [failure.message];
      return isConfigured(provider) ? [] : [namesNone(provider).message];
    });
  }

  /** Asks all of them. */
  async ask(answerMsMax = ANSWER_MS_MAX): Promise<void> {
    this.#askedMs = performance.now();
    await Promise.all([...this.#options.providers.keys()].map((name) => this.#ask(name, answerMsMax)));
  }

  /** Asks those that did not answer once more, in the background, unless that was done a moment ago. */
  askAgain(): void {
    const silent = [...this.#asked].filter(([, { failure }]) => failure !== undefined);
    const isEarly = performance.now() - this.#askedMs < AGAIN_MS;
    if (silent.length === 0 || isEarly || this.#again !== undefined) return;
    this.#askedMs = performance.now();
    this.#again = Promise.all(silent.map(([name]) => this.#ask(name, ANSWER_MS_MAX))).finally(() => {
      this.#again = undefined;
    });
  }

  /** The model that `provider/default` stands for; asks the provider when it has named none. Throws a `ModelFailure`. */
  async first(provider: string): Promise<string> {
    const known = this.of(provider);
    const { names, failure } =
      known.length > 0 ? { names: known, failure: undefined } : await this.#ask(provider, ANSWER_MS_MAX);
    if (failure !== undefined) throw failure;
    const [first] = names;
    if (first === undefined) throw namesNone(provider);
    return names.includes(FIRST) ? FIRST : first;
  }

  async #ask(name: string, answerMsMax: number): Promise<Asked> {
    const { providers, environment, fetch } = this.#options;
    const provider = providers.get(name);
    const asked =
      provider === undefined
        ? { names: [], failure: undefined }
        : await askProvider(name, provider, environment, { fetch, answerMsMax });
    // Of one that has stopped answering, what it has named is still the best that is known.
    const names = asked.failure === undefined ? asked.names : this.of(name);
    this.#asked.set(name, { ...asked, names });
    this.changes++;
    return asked;
  }
}

async function askProvider(
  name: string,
  provider: HttpProvider,
  environment: Environment,
  how: { readonly fetch: Fetch; readonly answerMsMax: number },
): Promise<Asked> {
  try {
    const apiKey = apiKeyOf(name, provider, environment);
    return { names: await discoverNames(provider, apiKey, how), failure: undefined };
  } catch (error) {
    const secrets = secretsOf(provider, environment);
    const cleaned = (words: string): string => cleanedWords(words, secrets, []);
    return {
      names: [],
      failure: judge(error, { modelId: name, keyRemedy: keyRemedyOf(name, provider), cleaned }),
    };
  }
}

/** How the user puts a wrong API key right. */
export function keyRemedyOf(name: string, { keyVariables }: HttpProvider): string {
  return keyVariables.length === 0
    ? `Set apiKeyEnv of the provider "${name}"`
    : `Check ${keyVariables.join(" and ")}`;
}

function namesNone(provider: string): ModelFailure {
  return new ModelFailure(
    "model_not_found",
    `${provider}: the provider names no models. Name one as ${provider}/model, or set models.default.`,
  );
}
