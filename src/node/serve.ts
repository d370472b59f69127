/**
 * A whole server in this process: the store, the agent with its models, the gateway, and the HTTP port in front of them.
 *
 * `holdfast serve` is this function, with a terminal around it; a program that embeds a server calls the same. Parts are opened in order and
 * closed in the opposite one, also when a later part cannot be opened. When the store fails, what stands on it is made anew and the port stays.
 */
import { join, resolve } from "node:path";
import { createAgent, type ModelInfo } from "../agent/index.ts";
import { createModels } from "../agent/models/index.ts";
import { gatewayHttp, type OpenSession } from "../gateway/index.ts";
import type { Durability } from "../protocol/frames.ts";
import { type HttpServer, serveHttp } from "../server/http/index.ts";
import { type Application, LastingServer, newServerCounters, type Spending } from "../server/index.ts";
import { DATABASE_FILE } from "../store/index.ts";
import { BrokenAnswers } from "./broken-answers.ts";
import { countingTokens } from "./counting-tokens.ts";
import { defaultDataDir, makeDataDir } from "./data-dir.ts";
import { failure, systemCode } from "./failures.ts";
import { type KeyNews, makePageKey, provideKey } from "./first-key.ts";
import type { Forgotten, ForgetWish } from "./forgetting.ts";
import { endingHeldCalls } from "./held-calls.ts";
import type { KeyAdmin } from "./key-admin.ts";
import { openLine } from "./line-life.ts";
import { isEveryAddress, isLoopback } from "./loopback.ts";
import { thisMachine } from "./machine.ts";
import { ModelCalls } from "./model-calls.ts";
import { modelsOf, openGround } from "./open-gateway.ts";
import { pageFile } from "./page-file.ts";
import { checkServeOptions, defaultPort, SERVE_DEFAULTS, type ServeOptions } from "./serve-options.ts";
import { SAVED_BY, tellingSaved } from "./saved.ts";
import { serverLog } from "./server-log.ts";
import { type Running, takeDown } from "./take-down.ts";
import { SignInLinks } from "./sign-in-links.ts";
import { Telemetry } from "./telemetry/telemetry.ts";
import {
  lastingAnswers,
  lastingForget,
  lastingKeys,
  lastingResponses,
  logNews,
  openStanding,
  type ServeStanding,
} from "./standing.ts";

export interface RunningServer {
  /** For Holdfast's clients. Empty without a port of its own. */
  readonly url: string;
  /** For OpenAI clients. Empty without a port of its own. */
  readonly baseUrl: string;
  /** Answers requests out of a server of `node:http`, Express and the like: `app.use("/ai", holdfast.listener)`. */
  readonly listener: HttpServer["listener"];
  /** Answers requests as the fetch standard has them, out of Hono, Next and the like. */
  readonly fetch: HttpServer["fetch"];
  readonly dataDir: string;
  /** An API key for programs on this machine; undefined when only its owner knows one. */
  readonly apiKey: string | undefined;
  /** Where the API key came from. */
  readonly keyNews: KeyNews;
  readonly keys: KeyAdmin;
  /**
   * What stands behind the address of the page in a link that signs in one browser of this machine, once, within ten minutes. Empty where no browser of
   * this machine reaches the port under a name of its own.
   */
  readonly signInLink: () => string;
  /** Deletes everything that is kept of a principal; stops what runs of it first. */
  readonly forget: (wish: ForgetWish) => Promise<Forgotten>;
  readonly durability: Durability;
  readonly models: () => readonly ModelInfo[];
  /** Why some models could not be listed. */
  readonly modelTroubles: () => readonly string[];
  /** What the gateway has open. */
  readonly sessions: () => readonly OpenSession[];
  /** How many turns are under way. */
  readonly runningTurns: () => number;
  /** Resolves when the store could not be opened anew too often: nothing works any more, close it. */
  readonly givenUp: Promise<Error>;
  /** Ends at the provider every model call that this server has under way; for a process that must end at once. */
  cancelCalls(): Promise<void>;
  /**
   * Tells clients, and stops in order. Nothing acknowledged is lost. Model calls under way first have `drainMs` to end; the line holds the rest. All waiting is over a
   * second behind that; without `drainMs` calls have no time, and requests under way five seconds.
   */
  close(options?: { readonly drainMs?: number }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function serve(options: ServeOptions = {}): Promise<RunningServer> {
  checkServeOptions(options);
  const { machine = thisMachine(), logger = serverLog("warn"), apiKey } = options;
  const { onNotice = warn, onReading = () => undefined, onSaved = () => undefined } = options;
  const dataDir = resolve(options.data ?? defaultDataDir(machine));
  const { host = SERVE_DEFAULTS.host, port = defaultPort(machine.env) } = options;
  const { openStreamsMax = SERVE_DEFAULTS.openStreamsMax } = options;
  const { responseTtlMs = SERVE_DEFAULTS.responseTtlMs, sessionTtlMs = SERVE_DEFAULTS.sessionTtlMs } =
    options;
  const { retentionMs = SERVE_DEFAULTS.retentionMs, storePauseMs = SERVE_DEFAULTS.storePauseMs } = options;
  makeDataDir(dataDir, onNotice);
  const running: Running = {};
  const breaks = new BrokenAnswers();
  const line = options.line === true ? openLine({ dataDir, machine, onNotice }) : undefined;
  const models = createModels({
    providers: options.providers ?? {},
    models: options.models ?? {},
    environment: machine.env,
    line,
    onBroke: (provider, { phase, why: cause }, of) => {
      const stream = breaks.note(of, "broke", `${phase}/${cause}`);
      logger.info({ provider, phase, cause, stream }, "a provider's answer broke");
    },
    onContinued: (how, of) => {
      const stream = breaks.note(of, "continued", how);
      const saved = SAVED_BY[how];
      if (saved !== undefined) onSaved(saved);
      else logger.info({ stream }, "a step that was cut off begins anew");
    },
  });
  // Started now, so that the first call does not wait for it.
  if (models.hasProviders) void line?.place();
  const telemetry = Telemetry.open(machine.env, logger);
  running.telemetry = telemetry;
  let spending: Spending | undefined;
  const calls = new ModelCalls(
    countingTokens(() => spending, logger, telemetry && ((...call) => telemetry.call(...call))),
  );
  const agent = endingHeldCalls(createAgent({ models: calls.counted(models) }), line);
  const turns = countedTurns(telemetry?.application(agent) ?? agent);
  try {
    running.line = line;
    await models.discover();
    const { upstreamServer: upstream, workspace } = options;
    const ground = await openGround({ models, dataDir, machine, upstream, workspace });
    running.ground = ground;
    await options.beforeOpening?.();
    const counters = newServerCounters();
    const { application } = turns;
    const { store: address } = options;
    const { storePatienceMs = SERVE_DEFAULTS.storePatienceMs, leaseMs = SERVE_DEFAULTS.leaseMs } = options;
    const settings = {
      storePatienceMs,
      leaseMs,
      host,
      dataDir,
      apiKey,
      retentionMs,
      openStreamsMax,
      responseTtlMs,
      sessionTtlMs,
      tokensPerDay: options.tokensPerDay,
      store: address,
    };
    const lasting = await LastingServer.open({
      open: () =>
        openStanding({
          ...settings,
          application,
          counters,
          ground,
          line,
          logger,
          machine,
          onNotice,
          onReading,
          onSpending: (opened) => (spending = opened),
        }),
      life: { pauseMs: storePauseMs },
      // An address may hold a password (E4).
      onNews: logNews(logger, address === undefined ? join(dataDir, DATABASE_FILE) : "PostgreSQL"),
    });
    running.lasting = lasting;
    const gateway = tellingSaved(
      gatewayHttp({
        answers: lastingAnswers(lasting, modelsOf(ground)),
        responses: lastingResponses(lasting),
        providers: ground.providers,
        rates: {
          spend: (...use) =>
            lasting.ask(async ({ gateway: one }) => (await one.shared?.spend(...use)) ?? false),
          enter: (...use) => lasting.ask(async ({ gateway: one }) => one.shared?.enter(...use)),
        },
        spending: {
          waitMs: (payer) => lasting.ask(() => lasting.usable.spending.waitMs(payer)),
          spend: (...spent) => lasting.ask(() => lasting.usable.spending.spend(...spent)),
        },
      }),
      onSaved,
    );
    const links = new SignInLinks(machine.now);
    const http = await serveHttp({
      server: lasting,
      page: {
        read: pageFile(),
        signIn: (token) => links.redeem(token, () => lasting.ask(({ keys }) => makePageKey(keys))),
      },
      logger,
      authenticate: (given) => lasting.ask(({ keys }) => keys.authenticate(given)),
      mounts: [telemetry?.mount(gateway) ?? gateway],
      onRequest: telemetry?.request,
      onAnswer: breaks.read,
      extraMetrics: () => metricsOf(lasting.standing) + models.metrics() + (line?.metrics() ?? ""),
      illness: () => lasting.illness,
      host,
      port,
      prefix: options.prefix,
      allowedHosts: options.allowedHosts ?? [],
      allowedOrigins: options.allowedOrigins ?? [],
      ...(options.tls === undefined ? {} : { tls: options.tls }),
    }).catch((error: unknown) => {
      throw cannotListen(error, host, port, options.tls !== undefined);
    });
    running.http = http;
    const { keys, store } = lasting.standing;
    const keyNews = await provideKey(keys, dataDir, apiKey !== undefined);
    const isAnswering = (): boolean => {
      const { readers, sessions } = lasting.standing.gateway;
      return readers > 0 || sessions.some(({ state }) => state === "generating");
    };
    const close = onceOnly(({ drainMs } = {}) =>
      takeDown(running, { drainMs, drain: (callsMs) => calls.drain(callsMs, isAnswering) }),
    );
    return {
      url: http.url,
      baseUrl: http.url === "" ? "" : `${http.url}/v1`,
      listener: http.listener,
      fetch: http.fetch,
      dataDir,
      apiKey: apiKey ?? ("apiKey" in keyNews ? keyNews.apiKey : undefined),
      keyNews,
      keys: lastingKeys(lasting),
      signInLink: () => (port !== false && (isLoopback(host) || isEveryAddress(host)) ? links.issue() : ""),
      forget: lastingForget(lasting),
      durability: store.streams.durability,
      models: () => models.list(),
      modelTroubles: () => models.troubles,
      sessions: () => lasting.standing.gateway.sessions,
      runningTurns: () => turns.running,
      givenUp: lasting.givenUp,
      cancelCalls: async () => line?.cancelOpen(),
      close,
      [Symbol.asyncDispose]: () => close(),
    };
  } catch (error) {
    await takeDown(running);
    throw error;
  }
}

function metricsOf(standing: ServeStanding): string {
  return standing.gateway.metrics() + standing.spending.metrics();
}

function onceOnly(act: RunningServer["close"]): RunningServer["close"] {
  let done: Promise<void> | undefined;
  return (options) => (done ??= act(options));
}

/** The same application, and how many turns it has under way. */
function countedTurns(application: Application): {
  readonly application: Application;
  readonly running: number;
} {
  let running = 0;
  return {
    application: async (stream) => {
      running++;
      try {
        await application(stream);
      } finally {
        running--;
      }
    },
    get running() {
      return running;
    },
  };
}

function cannotListen(error: unknown, host: string, port: number | false, hasTls: boolean): unknown {
  switch (systemCode(error)) {
    case "EADDRINUSE":
      return failure(
        `port ${port} is in use on ${host}; stop the program that uses it, or choose another with HOLDFAST_PORT, the option port or --port`,
        error,
      );
    case "EACCES":
      return failure(
        `no permission to listen on ${host}:${port}; choose a port above 1023 with --port`,
        error,
      );
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return failure(`this machine has no address ${host}; choose another with --host`, error);
    default:
      if (!hasTls || !(error instanceof Error)) return error;
      return failure(`TLS cannot be set up with this certificate and key: ${error.message}`, error);
  }
}

function warn(notice: string): void {
  process.emitWarning(notice, { code: "HOLDFAST_NOTICE" });
}
