/**
 * `holdfast serve`: wires the store, the server and the HTTP port together, and takes them down again in
 * the opposite order. When the store fails, what stands on it is made anew and the port stays.
 *
 * Everything that can go wrong at a start (a busy port, a locked or damaged database, a bind that
 * nobody protected) ends it with one line that says what to do.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createAgent } from "../agent/index.ts";
import { createModels } from "../agent/models/index.ts";
import { gatewayHttp, type SessionRecord } from "../gateway/index.ts";
import { type HttpServer, serveHttp } from "../server/http/index.ts";
import { type Application, LastingServer, newServerCounters } from "../server/index.ts";
import { DATABASE_FILE } from "../store/index.ts";
import type { FileLock } from "../store/sqlite/lock.ts";
import { announce } from "./announcement.ts";
import { commandsOn } from "./commands-on.ts";
import { type Control, openControl, type ServerAbout, type SessionInfo } from "./control-server.ts";
import { makeDataDir } from "./data-dir.ts";
import { claimDataDir } from "./data-dir-claim.ts";
import { failure, systemCode, TemporaryFailure, usageError } from "./failures.ts";
import { provideKey } from "./first-key.ts";
import { watchIdle } from "./idle-exit.ts";
import { serverLog } from "./server-log.ts";
import { type Flags, type ResolvedSettings, resolveSettings } from "./settings.ts";
import { type GatewayGround, openGround } from "./open-gateway.ts";
import { lastingAnswers, lastingKeys, logNews, openStanding, type ServeStanding } from "./standing.ts";
import { stopSignal } from "./stop-signals.ts";
import { type Surroundings, terminal } from "./terminal.ts";

export async function serve(flags: Flags, surroundings: Surroundings): Promise<void> {
  const settings = resolveSettings(flags, surroundings);
  const { dataDir, providers } = settings;
  const term = terminal(surroundings);
  const tls = readTls(settings);
  const notices: string[] = [];
  const onNotice = (notice: string): void => void notices.push(notice);
  makeDataDir(dataDir, onNotice);
  const models = createModels({ providers, models: settings.models, environment: surroundings.env });
  await models.discover();
  const turns = countedTurns(createAgent({ models }));
  const idleMs = settings.exitWhenIdleMs ?? Number.POSITIVE_INFINITY;
  const idle = Number.isFinite(idleMs)
    ? watchIdle(idleMs, () => turns.running > 0, surroundings.now)
    : undefined;
  const logger = serverLog(settings.logLevel);
  const running: Running = {};
  let ending: string | TemporaryFailure;
  try {
    const { upstreamServer: upstream, workspace } = settings;
    const ground = await openGround({ models, dataDir, surroundings, upstream, workspace });
    running.ground = ground;
    const isBackground = settings.exitWhenIdleMs !== undefined;
    const start = await claimDataDir({ dataDir, isBackground, note: term.note });
    running.start = start;
    const counters = newServerCounters();
    const { application } = turns;
    const lasting = await LastingServer.open({
      open: () => openStanding({ settings, application, counters, ground, logger, surroundings, onNotice }),
      life: { pauseMs: settings.storePauseMs },
      onNews: logNews(logger, join(dataDir, DATABASE_FILE)),
    });
    running.lasting = lasting;
    // Before it is known that the server runs: from then on a signal stops it in order.
    const stopped = stopSignal(() => term.note("Stopped at once."));
    const http = await serveHttp({
      server: lasting,
      logger,
      authenticate: (apiKey) => lasting.ask(({ keys }) => keys.authenticate(apiKey)),
      mounts: [gatewayHttp({ answers: lastingAnswers(lasting), providers: ground.providers })],
      extraMetrics: () => lasting.standing.gateway.metrics() + models.metrics(),
      illness: () => lasting.illness,
      host: settings.host,
      port: settings.port,
      allowedHosts: settings.allowHosts,
      allowedOrigins: settings.allowOrigins,
      ...(tls === undefined ? {} : { tls }),
    }).catch((error: unknown) => {
      throw cannotListen(error, settings);
    });
    running.http = http;
    const { keys, store } = lasting.standing;
    const news = await provideKey(keys, dataDir, settings.apiKey !== undefined);
    const about = (): ServerAbout => {
      idle?.touch();
      const { troubles } = models;
      return {
        url: http.url,
        pid: process.pid,
        endsWhenIdle: isBackground,
        models: models.list(),
        troubles,
      };
    };
    const roomWanted = Promise.withResolvers<string>();
    running.control = await openControl(dataDir, {
      keys: lastingKeys(lasting),
      about,
      sessions: () => lasting.standing.gateway.sessions.map(sessionInfo),
      makeRoom: () => {
        if (isBackground) roomWanted.resolve("Another server starts here");
        return isBackground;
      },
    });
    start.release();
    const { durability } = store.streams;
    const on = commandsOn(dataDir, surroundings);
    const { troubles } = models;
    const started = { url: http.url, settings, durability, keys: news, on, troubles, notices };
    announce({ ...started, models: models.list() }, term);
    ending = await Promise.race([
      stopped,
      idle?.idle.then(() => "Idle") ?? stopped,
      roomWanted.promise,
      lasting.givenUp.then(storeGivenUp),
    ]);
    const why = typeof ending === "string" ? ending : "No store";
    term.note(`${why}: telling clients, then stopping. Once more to stop at once.`);
  } finally {
    idle?.stop();
    await takeDown(running);
  }
  if (ending instanceof TemporaryFailure) throw ending;
  term.note("Stopped. Nothing that was acknowledged is lost.");
}

/** What there is so far. */
interface Running {
  start?: FileLock;
  ground?: GatewayGround;
  lasting?: LastingServer<ServeStanding>;
  http?: HttpServer;
  control?: Control;
}

async function takeDown({ start, ground, lasting, http, control }: Running): Promise<void> {
  await control?.close();
  // Closing the port shuts the server down; without a port it must be done here.
  await (http?.close() ?? lasting?.shutdown());
  await lasting?.close();
  await ground?.close();
  start?.release();
}

function storeGivenUp(reason: Error): TemporaryFailure {
  return new TemporaryFailure(
    `the store could not be opened anew: ${reason.message}. Nothing that was acknowledged is lost; start the server again when the disk is well`,
    { cause: reason },
  );
}

function sessionInfo({ answer, principal, model, state, pending, updatedMs }: SessionRecord): SessionInfo {
  return { streamId: answer.streamId, principal, model, state, pending: pending.length, updatedMs };
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

function readTls({ tls }: ResolvedSettings): { cert: string; key: string } | undefined {
  if (tls === undefined) return undefined;
  const read = (path: string, what: string): string => {
    try {
      return readFileSync(path, "utf8");
    } catch (error) {
      throw usageError(`the ${what} ${path} cannot be read (${systemCode(error) ?? String(error)})`);
    }
  };
  return { cert: read(tls.cert, "TLS certificate"), key: read(tls.key, "TLS key") };
}

function cannotListen(error: unknown, { host, port, tls }: ResolvedSettings): unknown {
  const at = `${host}:${port}`;
  switch (systemCode(error)) {
    case "EADDRINUSE":
      return failure(
        `port ${port} is in use on ${host}; stop what uses it, or choose another with --port`,
        error,
      );
    case "EACCES":
      return failure(`no permission to listen on ${at}; choose a port above 1023 with --port`, error);
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return failure(`this machine has no address ${host}; choose another with --host`, error);
    default:
      if (tls === undefined || !(error instanceof Error)) return error;
      return failure(`TLS cannot be set up with ${tls.cert} and ${tls.key}: ${error.message}`, error);
  }
}
