/**
 * Which models there are, and which one a name means.
 *
 * A name is `provider/model`, or a model's name alone where only one provider can be meant. A model that is not listed is
 * passed on to its provider: new ones appear every week. Only when the configuration says which are offered, these are all.
 */
import { MODEL_NAME_RULE, modelNameOf } from "../../protocol/model-name.ts";
import { type Model, ModelFailure, type ModelInfo, type Models } from "../model.ts";
import { FIRST, keyRemedyOf, NamedModels } from "./named-models.ts";
import { OFFERED } from "./offered.ts";
import {
  apiKeyOf,
  type Environment,
  type Fetch,
  type HttpProvider,
  keysOf,
  type Provider,
  type ProviderConfig,
  providersOf,
  secretsOf,
  split,
} from "./providers.ts";
import { COOLDOWN, newHealth } from "./routing/health.ts";
import { type AskedTarget, RoutedModel } from "./routing/routed-model.ts";
import { RateLimits } from "./rate-limits.ts";
import { Continuations, prefillFormOf } from "./prefill.ts";
import { ProviderCounters, type ProviderNews } from "./provider-counters.ts";
import { rehearsalModel } from "./rehearsal.ts";
import type { LineClient } from "./line/line-client.ts";
import type { HeldRequests } from "./line/line-fetch.ts";
import { loadModel } from "./load-model.ts";
import type { Patience } from "./patience.ts";
import { SdkTarget } from "./sdk-model.ts";
import type { ProviderAccess, ServedModel } from "./served-model.ts";
import { httpFetch } from "./upstream/http-fetch.ts";
import { withoutRedirects } from "./upstream/redirects.ts";

export interface ModelLimits {
  /** How much the model reads. */
  readonly contextTokensMax?: number;
  /** How much it may write in one step. */
  readonly outputTokensMax?: number;
}

/** `models` in the configuration. Ids are `provider/model`. */
export interface ModelsConfig {
  readonly default?: string;
  /** Then these are all there are. */
  readonly offered?: readonly string[];
  readonly limits?: Readonly<Record<string, ModelLimits>>;
  /** By id: the models that are asked in turn when it does not answer. */
  readonly fallbacks?: Readonly<Record<string, readonly string[]>>;
}

export interface ModelsOptions extends ProviderNews {
  readonly providers?: Readonly<Record<string, ProviderConfig>>;
  readonly models?: ModelsConfig;
  readonly environment: Environment;
  readonly fetch?: Fetch;
  readonly patience?: Partial<Patience>;
  /** Holds calls beside this process; undefined: they end with it. */
  readonly line?: LineClient | undefined;
}

export interface ProviderModels extends Models {
  /**
   * Asks OpenAI-compatible servers which models they have; from then on these are listed, and can be the default.
   * One that does not answer in time (2 s by default) is listed as `provider/default`, and is asked again when it is called.
   */
  discover(answerMsMax?: number): Promise<void>;
  /**
   * One sentence for each provider that was asked and named no models: why, and what to do. None for one that works without
   * naming them, because the configuration does.
   */
  readonly troubles: readonly string[];
  /** What is counted of the providers, as Prometheus reads it. */
  metrics(): string;
  /** Who serves the model of a name. Throws as `resolve` does. */
  served(name: string): ServedModel;
  /** Whether there is any provider but the rehearsal. */
  readonly hasProviders: boolean;
}

interface ListedModel {
  readonly provider: string;
  readonly name: string;
  readonly contextTokensMax: number | undefined;
}

const REHEARSAL = "rehearsal/rehearsal";
/** Clients may name any model; those beyond are made anew each time. */
const MADE_MAX = 256;

export function createModels(options: ModelsOptions): ProviderModels {
  return new Registry(options);
}

class Registry implements ProviderModels {
  readonly #options: ModelsOptions;
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #made = new Map<string, Model>();
  readonly #targets = new Map<string, AskedTarget>();
  /** What names mean, as long as no provider says anew what it has: a request asks for its model in half a dozen places. */
  readonly #places = new Map<string, readonly [string, string]>();
  #placesAsOf = 0;
  readonly #health = newHealth();
  readonly #named: NamedModels;
  readonly #fetch: Fetch;
  readonly #limits = new RateLimits();
  readonly #counters: ProviderCounters;
  readonly #continuations: Continuations;

  constructor(options: ModelsOptions) {
    this.#options = options;
    this.#counters = new ProviderCounters(options);
    this.#fetch = withoutRedirects(options.fetch ?? httpFetch);
    this.#providers = providersOf(options.providers ?? {}, options.environment);
    this.#continuations = new Continuations(this.#providers, this.#counters);
    const providers = new Map(
      [...this.#providers].flatMap(([name, provider]) =>
        provider !== "rehearsal" && provider.dialect === "openai-compatible" ? [[name, provider]] : [],
      ),
    );
    this.#named = new NamedModels({ providers, environment: options.environment, fetch: this.#fetch });
  }

  list(): readonly ModelInfo[] {
    this.#named.askAgain();
    const first = this.#defaultId();
    return this.#listed().map(({ provider, name, contextTokensMax }) => {
      const id = `${provider}/${name}`;
      return { id, provider, isDefault: id === first, contextTokensMax };
    });
  }

  resolve(asked: string): Model {
    return this.#known(...this.#placeOfName(asked));
  }

  get hasProviders(): boolean {
    return [...this.#providers.values()].some((provider) => provider !== "rehearsal");
  }

  served(asked: string): ServedModel {
    const [provider, model] = this.#placeOfName(asked);
    const kind = this.#providers.get(provider);
    if (kind === undefined) throw this.#unknown(asked);
    const type = kind === "rehearsal" ? kind : kind.dialect;
    const rateLimits = this.#limits.of(`${provider}/${model}`);
    return { provider, model, type, rateLimits, access: () => this.#access(provider, kind) };
  }

  #access(name: string, provider: Provider): ProviderAccess | undefined {
    if (provider === "rehearsal" || !provider.dialect.startsWith("openai")) return undefined;
    const apiKey = apiKeyOf(name, provider, this.#options.environment);
    const { baseURL, headers } = provider;
    const authorized = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    const secrets = secretsOf(provider, this.#options.environment);
    return { baseURL, headers: { ...headers, ...authorized }, secrets };
  }

  #placeOfName(asked: string): readonly [string, string] {
    if (this.#placesAsOf !== this.#named.changes) this.#places.clear();
    this.#placesAsOf = this.#named.changes;
    return madeOnce(this.#places, asked, () => this.#lookedUp(asked));
  }

  #lookedUp(asked: string): readonly [string, string] {
    const name = modelNameOf(asked === "" ? this.#defaultId() : asked);
    if (name === undefined) throw noName(asked);
    const meant = this.#meant(name);
    const isMeant = (one: ListedModel): boolean => `${one.provider}/${one.name}` === meant.join("/");
    if (!this.#isClosed() || this.#listed().some(isMeant)) return meant;
    throw this.#unknown(name);
  }

  discover(answerMsMax?: number): Promise<void> {
    return this.#named.ask(answerMsMax);
  }

  get troubles(): readonly string[] {
    const { default: first = "", offered = [], limits = {} } = this.#options.models ?? {};
    const configured = [first, ...offered, ...Object.keys(limits)].map(split);
    const silent = this.#named.troubles((name) =>
      configured.some(([provider, model]) => provider === name && model !== FIRST),
    );
    return [...silent, ...this.#strayFallbacks()];
  }

  /** Fallbacks that can never be asked. */
  #strayFallbacks(): readonly string[] {
    const named = Object.values(this.#options.models?.fallbacks ?? {}).flat();
    const strays = [...new Set(named)].filter(
      (id) => (this.#providers.get(split(id)[0]) ?? "rehearsal") === "rehearsal",
    );
    return strays.map(
      (id) =>
        `models.fallbacks: ${JSON.stringify(id)} is of no provider that is configured. Configure it, or take it out.`,
    );
  }

  metrics(): string {
    return this.#counters.metrics();
  }

  #isClosed(): boolean {
    return this.#options.models?.offered !== undefined;
  }

  #listed(): readonly ListedModel[] {
    const { offered, default: first } = this.#options.models ?? {};
    const ids = offered === undefined ? this.#openList() : offered;
    const all = first === undefined || ids.includes(first) ? ids : [first, ...ids];
    const listed = all.map((id) => this.#listedModel(id));
    const rehearsal = all.includes(REHEARSAL) ? [] : [this.#listedModel(REHEARSAL)];
    return [...listed, ...rehearsal].filter(({ provider }) => this.#providers.has(provider));
  }

  /** The models of each provider that are known without asking it, and those with limits of their own. */
  #openList(): readonly string[] {
    const limited = Object.keys(this.#options.models?.limits ?? {});
    const known = [...this.#providers].flatMap(([provider, kind]) => {
      const type = kind === "rehearsal" ? kind : kind.dialect;
      const own = [...OFFERED[type].map(({ name }) => name), ...this.#named.of(provider)];
      const isLimited = limited.some((id) => split(id)[0] === provider);
      // It keeps its place, whether or not it answers.
      const listed = own.length > 0 || isLimited ? own : [FIRST];
      return listed.map((name) => `${provider}/${name}`);
    });
    return [...new Set([...limited, ...known])].toSorted((a, b) => this.#placeOf(a) - this.#placeOf(b));
  }

  #placeOf(id: string): number {
    return [...this.#providers.keys()].indexOf(split(id)[0]);
  }

  #listedModel(id: string): ListedModel {
    const [provider, name] = this.#split(id);
    return { provider, name, contextTokensMax: this.#contextOf(provider, name) };
  }

  /** Provider and model. Google's models have a second name, with the folder that they are in. */
  #split(id: string): readonly [string, string] {
    const [provider, name] = split(id);
    const kind = this.#providers.get(provider);
    const isGoogle = kind !== undefined && kind !== "rehearsal" && kind.dialect === "google";
    return [provider, isGoogle ? name.replace(/^models\//, "") : name];
  }

  #contextOf(provider: string, name: string): number | undefined {
    const configured = this.#options.models?.limits?.[`${provider}/${name}`]?.contextTokensMax;
    const kind = this.#providers.get(provider);
    if (configured !== undefined || kind === undefined) return configured;
    const type = kind === "rehearsal" ? kind : kind.dialect;
    return OFFERED[type].find((offered) => offered.name === name)?.contextTokensMax;
  }

  #defaultId(): string {
    const { default: configured } = this.#options.models ?? {};
    if (configured !== undefined) return configured;
    const first = this.#listed().find(({ provider }) => this.#providers.get(provider) !== "rehearsal");
    return first === undefined ? REHEARSAL : `${first.provider}/${first.name}`;
  }

  /** Provider and model. A model's own name may have slashes in it. */
  #meant(name: string): readonly [string, string] {
    const [provider, model] = this.#split(name);
    if (this.#providers.has(provider) && model !== "") return [provider, model];
    const having = this.#listed().filter((one) => one.name === name);
    if (having[0] !== undefined && having.length === 1) return [having[0].provider, name];
    const places = having.map((one) => `${one.provider}/${name}`);
    if (places.length > 1) throw this.#ambiguous(name, places);
    const serving = [...this.#providers].filter(([, kind]) => kind !== "rehearsal").map(([one]) => one);
    const [single] = serving;
    if (single !== undefined && serving.length === 1) return this.#split(`${single}/${name}`);
    throw this.#unknown(name);
  }

  #known(name: string, model: string): Model {
    const id = `${name}/${model}`;
    return madeOnce(this.#made, id, () => {
      if (this.#providers.get(name) === "rehearsal") return this.#rehearsal(name, model);
      const fallbacks = (named: readonly string[]): readonly AskedTarget[] => this.#fallbacksOf(id, named);
      const { line } = this.#options;
      const parts = { fallbacks, health: this.#health, line, continuations: this.#continuations };
      return new RoutedModel({ target: this.#target(name, model), ...parts });
    });
  }

  #rehearsal(name: string, model: string): Model {
    const id = `${name}/${model}`;
    if (model !== "rehearsal") throw this.#unknown(id);
    const onCall = (): void => this.#counters.asked(name);
    const noteContinued: Model["noteContinued"] = (...what) => this.#continuations.note(...what);
    return rehearsalModel({ id, contextTokensMax: this.#contextOf(name, model), onCall, noteContinued });
  }

  /** The rehearsal takes the place of no model. */
  #fallbacksOf(id: string, named: readonly string[]): readonly AskedTarget[] {
    const configured = (this.#options.models?.fallbacks?.[id] ?? []).map((one) => this.#split(one));
    const meant = named.length > 0 ? named.map((asked) => this.#placeOfName(asked)) : configured;
    const serving = meant.filter(([name]) => (this.#providers.get(name) ?? "rehearsal") !== "rehearsal");
    return serving.map(([name, model]) => this.#target(name, model));
  }

  #target(name: string, model: string): AskedTarget {
    return madeOnce(this.#targets, `${name}/${model}`, () => this.#newTarget(name, model));
  }

  #newTarget(name: string, model: string): AskedTarget {
    const provider = this.#providers.get(name);
    const id = `${name}/${model}`;
    if (provider === undefined || provider === "rehearsal") throw this.#unknown(id);
    const { environment, patience } = this.#options;
    const { silenceMs, writingSilenceMs, dialect, cooldown = COOLDOWN } = provider;
    const made = new Map<string, ReturnType<typeof loadModel>>();
    return new SdkTarget({
      id,
      dialect,
      prefill: prefillFormOf(provider, model),
      keys: keysOf(provider, environment),
      cooldown,
      load: async (fetch, key) => {
        const meant = await this.#nameAt(name, provider, model);
        return madeOnce(made, `${key ?? ""} ${meant}`, () =>
          loadModel(provider, meant, apiKeyOf(name, provider, environment, key), fetch),
        );
      },
      fetch: (held) => this.#limits.watched(id, this.#sending(name, id, held)),
      resume: provider.resume,
      watch: (stream) => this.#counters.watch(name, stream),
      contextTokensMax: this.#contextOf(name, model),
      outputTokensMax: this.#options.models?.limits?.[id]?.outputTokensMax,
      secrets: secretsOf(provider, environment),
      keyRemedy: keyRemedyOf(name, provider),
      patience: {
        ...(silenceMs === undefined ? {} : { silenceMs }),
        ...(writingSilenceMs === undefined ? {} : { writingMs: writingSilenceMs }),
        ...patience,
      },
    });
  }

  #sending(name: string, id: string, held: HeldRequests | undefined): Fetch {
    const onSent = (): void => this.#counters.asked(name);
    if (held !== undefined) return withoutRedirects(held.fetch(id, this.#fetch, onSent));
    return (...request) => (onSent(), this.#fetch(...request));
  }

  /** As the provider calls it. */
  async #nameAt(name: string, { dialect }: HttpProvider, model: string): Promise<string> {
    return model === FIRST && dialect === "openai-compatible" ? this.#named.first(name) : model;
  }

  #unknown(name: string): ModelFailure {
    this.#named.askAgain();
    const names = this.#listed()
      .map((one) => `${one.provider}/${one.name}`)
      .join(", ");
    const others = this.#isClosed()
      ? ""
      : `, and every other model as provider/model of ${this.#providerNames()}`;
    return new ModelFailure(
      "model_not_found",
      `There is no model ${JSON.stringify(name)}. There are ${names}${others}.`,
    );
  }

  #providerNames(): string {
    const serving = [...this.#providers].filter(([, kind]) => kind !== "rehearsal").map(([name]) => name);
    return serving.length === 0
      ? "a provider: none is configured yet (set ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_GENERATIVE_AI_API_KEY or OLLAMA_HOST)"
      : serving.join(", ");
  }

  #ambiguous(name: string, ids: readonly string[]): ModelFailure {
    return new ModelFailure(
      "model_not_found",
      `Several providers have a model ${JSON.stringify(name)}. Say which: ${ids.join(" or ")}.`,
    );
  }
}

/** An SDK's model costs more to make than to call. */
function madeOnce<Made>(known: Map<string, Made>, id: string, make: () => Made): Made {
  const made = known.get(id) ?? make();
  if (known.size < MADE_MAX) known.set(id, made);
  return made;
}

function noName(asked: string): ModelFailure {
  const said = JSON.stringify(asked);
  return new ModelFailure("model_not_found", `There is no model ${said}: a model's name ${MODEL_NAME_RULE}.`);
}
