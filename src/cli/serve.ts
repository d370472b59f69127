/**
 * `holdfast serve`: wires the store, the server and the HTTP port together, and takes them down again in
 * the opposite order.
 *
 * Everything that can go wrong at a start (a busy port, a locked or damaged database, a bind that
 * nobody protected) ends it with one line that says what to do.
 */
import { readFileSync } from "node:fs";
import { pino } from "pino";
import { createAgent } from "../agent/index.ts";
import { createModels } from "../agent/models/index.ts";
import { DEFAULTS as HOST } from "../core/host-state.ts";
import { nodeSealing } from "../sealing/node.ts";
import { ApiKeys } from "../server/api-keys.ts";
import { countedLog } from "../server/counted-log.ts";
import { newServerCounters, type ServerCounters } from "../server/counters.ts";
import { type HttpServer, serveHttp } from "../server/http/index.ts";
import { type Application, createServer, type Server } from "../server/index.ts";
import { type CommitLog, openSqliteStore, type ScanProgress, type SqliteStore } from "../store/index.ts";
import { gatewayHttp, type SessionRecord } from "../gateway/index.ts";
import { announce } from "./announcement.ts";
import { type Control, openControl, type ServerAbout, type SessionInfo } from "./control-server.ts";
import { makeDataDir } from "./data-dir.ts";
import { failure, systemCode, usageError } from "./failures.ts";
import { checkReachable, provideKey } from "./first-key.ts";
import { watchIdle } from "./idle-exit.ts";
import { keyAdmin } from "./key-admin.ts";
import { type Flags, type ResolvedSettings, resolveSettings } from "./settings.ts";
import { type OpenGateway, openGateway } from "./open-gateway.ts";
import { stopSignal } from "./stop-signals.ts";
import { fileSize, type Surroundings, terminal } from "./terminal.ts";

/** Long enough that who waits begins to wonder. */
const SLOW_OPEN_MS = 1_000;

export async function serve(flags: Flags, surroundings: Surroundings): Promise<void> {
  const settings = resolveSettings(flags, surroundings);
  const term = terminal(surroundings);
  const tls = readTls(settings);
  const notices: string[] = [];
  makeDataDir(settings.dataDir, (notice) => notices.push(notice));
  const counters = newServerCounters();
  const { providers } = settings;
  const models = createModels({ providers, models: settings.models, environment: surroundings.env });
  await models.discover();
  const store = await openStore(settings.dataDir, counters, surroundings);
  const running: { http?: HttpServer; server?: Server; gateway?: OpenGateway; control?: Control } = {};
  const turns = countedTurns(createAgent({ models }));
  const idleMs = settings.exitWhenIdleMs ?? Number.POSITIVE_INFINITY;
  const idle = Number.isFinite(idleMs)
    ? watchIdle(idleMs, () => turns.running > 0, surroundings.now)
    : undefined;
  try {
    const keys = new ApiKeys({
      tables: store.tables,
      now: surroundings.now,
      environmentKey: settings.apiKey,
    });
    await checkReachable(keys, settings.host);
    const logger = pino({ level: settings.logLevel }, pino.destination({ dest: 2, sync: true }));
    running.server = createServer({
      store: store.streams,
      blobs: store.blobs,
      counters,
      sealing: nodeSealing(),
      application: turns.application,
      host: { retention: { ...HOST.retention, retentionMs: settings.retentionMs } },
      onBug: (bug) => logger.error({ err: bug }, "a failed assertion, or something the application threw"),
    });
    const { dataDir } = settings;
    const opened = await openGateway({
      server: running.server,
      store,
      models,
      dataDir,
      logger,
      surroundings,
      onNotice: (message) => notices.push(message),
      upstream: settings.upstreamServer,
      workspace: settings.workspace,
      openStreamsMax: settings.openStreams,
    });
    running.gateway = opened;
    const { gateway, providers } = opened;
    // Before anybody can know that it runs: who was told must not be able to end it unawares.
    const stopped = stopSignal(() => term.note("Stopped at once."));
    const http = await serveHttp({
      server: running.server,
      logger,
      authenticate: (apiKey) => keys.authenticate(apiKey),
      mounts: [gatewayHttp({ answers: gateway, providers })],
      extraMetrics: () => gateway.metrics() + models.metrics(),
      host: settings.host,
      port: settings.port,
      allowedHosts: settings.allowHosts,
      allowedOrigins: settings.allowOrigins,
      ...(tls === undefined ? {} : { tls }),
    }).catch((error: unknown) => {
      throw cannotListen(error, settings);
    });
    running.http = http;
    const news = await provideKey(keys, settings.dataDir, settings.apiKey !== undefined);
    const about = (): ServerAbout => {
      idle?.touch();
      return { url: http.url, models: models.list() };
    };
    running.control = await openControl(settings.dataDir, {
      keys: keyAdmin(keys),
      about,
      sessions: () => gateway.sessions.map(sessionInfo),
    });
    const { durability } = store.streams;
    announce({ url: http.url, settings, durability, keys: news, models: models.list(), notices }, term);
    const reason = await Promise.race([stopped, idle?.idle.then(() => "Idle") ?? stopped]);
    term.note(`${reason}: telling clients to come back, then stopping. Once more to stop at once.`);
  } finally {
    idle?.stop();
    await running.control?.close();
    // Closing the port shuts the server down; without a port it must be done here.
    await (running.http?.close() ?? running.server?.shutdown());
    await running.gateway?.close();
    await store.close();
  }
  term.note("Stopped. Nothing that was acknowledged is lost.");
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

/** A large database takes a while to read, and silence would look like a hang. */
async function openStore(
  dataDir: string,
  counters: ServerCounters,
  surroundings: Surroundings,
): Promise<SqliteStore> {
  const { now } = surroundings;
  const { note } = terminal(surroundings);
  let progress: ScanProgress = { rows: 0, bytes: 0, bytesTotal: 0 };
  const timer = setInterval(() => note(progressLine(progress)), SLOW_OPEN_MS);
  const onProgress = (news: ScanProgress): void => {
    progress = news;
  };
  try {
    const throughLog = (log: CommitLog): CommitLog => countedLog(log, counters);
    return await openSqliteStore(dataDir, { now, onProgress, throughLog });
  } finally {
    clearInterval(timer);
  }
}

function progressLine({ bytes, bytesTotal }: ScanProgress): string {
  const share =
    bytesTotal === 0 ? "" : ` ${Math.floor((100 * bytes) / bytesTotal)} % of ${fileSize(bytesTotal)}`;
  return `Reading the database ...${share}`;
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
