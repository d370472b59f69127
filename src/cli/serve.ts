/**
 * `holdfast serve`: the server of this package in a process of its own, with what a terminal and other commands need around it: the announcement, signals,
 * the control file, an end when it is idle.
 *
 * Everything that can go wrong at a start (a busy port, a locked or damaged database, a bind that is not protected) ends it with one line that says what to do.
 */
import { readFileSync } from "node:fs";
import type { OpenSession } from "../gateway/index.ts";
import { systemCode, usageError } from "../node/failures.ts";
import { type RunningServer, serve as runServer } from "../node/serve.ts";
import { given } from "../protocol/given.ts";
import type { ScanProgress } from "../store/index.ts";
import type { FileLock } from "../store/sqlite/lock.ts";
import { announce, localUrl, warnings } from "./announcement.ts";
import { commandsOn } from "./commands-on.ts";
import type { SessionInfo } from "./control-messages.ts";
import { openControl } from "./control-server.ts";
import { saveCompiledCode } from "./compiled-code.ts";
import { claimDataDir } from "./data-dir-claim.ts";
import { TemporaryFailure } from "./failures.ts";
import { endsEverything, guard } from "./guard.ts";
import { watchIdle } from "./idle-exit.ts";
import { commandLog, savedLines } from "./command-log.ts";
import { type Flags, type ResolvedSettings, resolveSettings } from "./settings.ts";
import { isStopSignal, stopSignal } from "./stop-signals.ts";
import { fileSize, type Surroundings, terminal } from "./terminal.ts";

export async function serve(flags: Flags, surroundings: Surroundings): Promise<void> {
  const settings = resolveSettings(flags, surroundings);
  // Now, while nothing is open and no client waits for an answer: everything that a start needs is loaded.
  saveCompiledCode();
  const { pid, ppid } = process;
  if (settings.line && endsEverything({ pid, ppid, env: surroundings.env })) {
    const { note } = terminal(surroundings);
    const args = [...process.execArgv, ...process.argv.slice(1)];
    process.exitCode = await guard({ command: process.execPath, args, note, now: surroundings.now });
    return;
  }
  const { dataDir, host, port, apiKey, providers, workspace, upstreamServer } = settings;
  const { retentionMs, responseTtlMs, sessionTtlMs, storePauseMs, storePatienceMs, leaseMs, tokensPerDay } =
    settings;
  const term = terminal(surroundings);
  const logger = commandLog(settings.logLevel, surroundings);
  let start: FileLock | undefined;
  const server = await runServer({
    data: dataDir,
    store: settings.store,
    host,
    port,
    apiKey,
    providers,
    models: settings.models,
    workspace,
    upstreamServer,
    retentionMs,
    responseTtlMs,
    sessionTtlMs,
    tokensPerDay,
    storePauseMs,
    storePatienceMs,
    leaseMs,
    tls: readTls(settings),
    allowedHosts: settings.allowHosts,
    allowedOrigins: settings.allowOrigins,
    openStreamsMax: settings.openStreams,
    line: settings.line,
    logger,
    onSaved: savedLines(logger),
    onNotice: (notice) => logger.warn(notice),
    onReading: (progress) => term.note(progressLine(progress)),
    beforeOpening: async () => {
      start = await claimDataDir({ dataDir, isBackground: isBackground(settings), note: term.note });
    },
    machine: surroundings,
  }).catch((error: unknown) => {
    start?.release();
    throw error;
  });
  // Before it is announced: from then on people and programs may stop it.
  const stopped = stopSignal(async () => {
    term.note("Stopped at once.");
    await server.cancelCalls();
  });
  let drainMs: number | undefined;
  try {
    const on = commandsOn(dataDir, surroundings);
    const ending = await untilItEnds(server, stopped, settings, surroundings, () => {
      start?.release();
      const { url, keyNews: keys } = server;
      const [models, troubles] = [server.models(), server.modelTroubles()];
      for (const text of warnings(url, settings)) logger.warn(text);
      announce({ url, settings, keys, signInLink: server.signInLink(), models, troubles, on }, term);
    });
    const why = typeof ending === "string" ? ending : "No store";
    if (isStopSignal(ending)) ({ drainMs } = settings);
    term.note(`${why}: stopping in order. Send it again to stop at once.`);
    if (ending instanceof TemporaryFailure) throw ending;
  } finally {
    await server.close(given({ drainMs }));
    start?.release();
  }
  term.note("Stopped. Nothing acknowledged is lost.");
}

/** Answers the commands of this machine until a signal, idleness or the store ends it. */
async function untilItEnds(
  server: RunningServer,
  stopped: Promise<string>,
  settings: ResolvedSettings,
  { now }: Surroundings,
  onReady: () => void,
): Promise<string | TemporaryFailure> {
  const { dataDir, exitWhenIdleMs } = settings;
  const endsWhenIdle = isBackground(settings);
  const roomWanted = Promise.withResolvers<string>();
  const idle =
    exitWhenIdleMs === undefined
      ? undefined
      : watchIdle(exitWhenIdleMs, () => server.runningTurns() > 0, now);
  try {
    const control = await openControl(dataDir, {
      keys: server.keys,
      forget: server.forget,
      about: () => {
        idle?.touch();
        const [models, troubles] = [server.models(), server.modelTroubles()];
        return { url: server.url, pid: process.pid, endsWhenIdle, models, troubles };
      },
      sessions: () => server.sessions().map(sessionInfo),
      link: () => {
        const signIn = server.signInLink();
        return signIn === "" ? "" : `${localUrl(server.url, settings.host)}/${signIn}`;
      },
      makeRoom: () => {
        if (endsWhenIdle) roomWanted.resolve("Another server starts here");
        return endsWhenIdle;
      },
    });
    try {
      onReady();
      const isIdle = idle?.idle.then(() => "Idle") ?? stopped;
      return await Promise.race([stopped, isIdle, roomWanted.promise, server.givenUp.then(storeGivenUp)]);
    } finally {
      await control.close();
    }
  } finally {
    idle?.stop();
  }
}

/** A chat has started it: it makes room for one that a person starts. */
function isBackground({ exitWhenIdleMs }: ResolvedSettings): boolean {
  return exitWhenIdleMs !== undefined;
}

function progressLine({ bytes, bytesTotal }: ScanProgress): string {
  const share =
    bytesTotal === 0 ? "" : ` ${Math.floor((100 * bytes) / bytesTotal)} % of ${fileSize(bytesTotal)}`;
  return `Reading the database ...${share}`;
}

function storeGivenUp(reason: Error): TemporaryFailure {
  return new TemporaryFailure(
    `the store could not be reopened: ${reason.message}. Nothing acknowledged is lost; start the server again when the disk works`,
    { cause: reason },
  );
}

function sessionInfo({ answer, principal, model, state, pending, updatedMs }: OpenSession): SessionInfo {
  return { streamId: answer.streamId, principal, model, state, pending: pending.length, updatedMs };
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
