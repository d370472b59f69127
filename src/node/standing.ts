/**
 * What `holdfast serve` puts on an open store: API keys, the server of streams, the gateway.
 *
 * One function makes all of it, at the start and whenever the store is opened anew. So whatever one of them remembers of a
 * store that failed goes with it. What does not stand on the store (the port, the models, the way to another server) is
 * made once, elsewhere.
 */
import type { Logger } from "pino";
import { DEFAULTS as HOST } from "../core/host-state.ts";
import type { StreamName } from "../core/stream-state.ts";
import { given } from "../protocol/given.ts";
import { nodeSealing } from "../sealing/node.ts";
import {
  ApiKeys,
  type Application,
  createServer,
  type LastingServer,
  Spending,
  type Standing,
  type StandingServer,
  type StoreNews,
} from "../server/index.ts";
import type { LineClient } from "../agent/models/line/line-client.ts";
import type { GatewayAnswers, KeptAnswers } from "../gateway/index.ts";
import { checkReachable } from "./first-key.ts";
import { type ForgetParts, forgetPrincipal, type ForgetWish, type Forgotten } from "./forgetting.ts";
import { takeUpHeldCalls } from "./held-calls.ts";
import { type KeyAdmin, keyAdmin } from "./key-admin.ts";
import { type GatewayGround, type OpenGateway, openGateway, type Way } from "./open-gateway.ts";
import { joinNodes } from "./node-life.ts";
import { openStore, type ServerStore, type StoreParts } from "./open-store.ts";
import { logStall } from "./stall-log.ts";

export interface ServeStanding extends Standing {
  readonly store: ServerStore;
  readonly keys: ApiKeys;
  readonly gateway: OpenGateway["gateway"];
  readonly spending: Spending;
}

interface StandingParts extends StoreParts {
  readonly host: string;
  readonly apiKey: string | undefined;
  readonly tokensPerDay: number | undefined;
  readonly retentionMs: number;
  readonly openStreamsMax: number;
  readonly responseTtlMs: number;
  readonly sessionTtlMs: number;
  readonly leaseMs: number;
  readonly application: Application;
  readonly ground: GatewayGround;
  readonly line: LineClient | undefined;
  readonly logger: Logger;
  /** Called before anything of this standing asks a model. */
  readonly onSpending: (spending: Spending) => void;
}

export async function openStanding(parts: StandingParts): Promise<ServeStanding> {
  const { dataDir, counters, logger, machine } = parts;
  const store = await openStore(parts);
  let server: StandingServer | undefined;
  try {
    const { now } = machine;
    const { tables } = store;
    const { retentionMs, tokensPerDay } = parts;
    const keys = new ApiKeys({ tables, now, environmentKey: parts.apiKey, tokensPerDay });
    const spending = await Spending.open({ tables, now, retentionMs, isShared: store.letters !== undefined });
    parts.onSpending(spending);
    await checkReachable(keys, parts.host, dataDir);
    server = createServer({
      store: store.streams,
      blobs: store.blobs,
      counters,
      sealing: nodeSealing(),
      application: parts.application,
      hostId: store.hostId,
      leaseMs: parts.leaseMs,
      admit: (...asked) => spending.admit(...asked),
      ...given({ letters: store.letters }),
      host: { retention: { ...HOST.retention, retentionMs } },
      onBug: (bug) => logger.error({ err: bug }, "a failed assertion, or something the application threw"),
      onStall: (news) => logStall(logger, "server", news, news),
    });
    const { letters, hostId: nodeId } = store;
    // A store that no other node can share has letters for none.
    const life = letters === undefined ? undefined : await joinNodes(tables, nodeId, parts.leaseMs);
    const closing = new AbortController();
    const opened = await openGateway({ ...parts, server, store, spending, neighbours: life });
    const { gateway } = opened;
    if (parts.line !== undefined) void takeUp(parts.line, store, gateway, closing.signal, logger);
    const close = async (): Promise<void> => {
      closing.abort();
      await opened.close();
      await life?.close();
      await store.close();
    };
    return { store, keys, spending, server, gateway, failed: store.failed, close };
  } catch (error) {
    await server?.shutdown();
    await store.close();
    throw error;
  }
}

/** Not waited for: a line that is slow to start delays no client. */
async function takeUp(
  line: LineClient,
  { streams }: ServerStore,
  gateway: OpenGateway["gateway"],
  closing: AbortSignal,
  logger: Logger,
): Promise<void> {
  const wake = ({ principal, idempotencyKey }: StreamName, name: string): Promise<void> =>
    gateway.continueHeld(principal, idempotencyKey, name);
  try {
    await takeUpHeldCalls({ line, streams, wake, closing });
  } catch (error) {
    if (!closing.aborted) logger.error({ err: error }, "model calls that the line holds are not taken up");
  }
}

/** The gateway of the moment. While the store is down every request is refused with when to come again. */
export function lastingAnswers(
  lasting: LastingServer<ServeStanding>,
  models: Pick<Way, "models" | "resolveModel">,
): GatewayAnswers {
  // A gateway without its tables could do harm, and no good: it is not even asked.
  const asked = <Told>(what: (gateway: OpenGateway["gateway"]) => Promise<Told>): Promise<Told> =>
    lasting.ask(async () => what(lasting.usable.gateway));
  return {
    models: () => models.models(),
    modelId: (name) => models.resolveModel(name),
    chat: (call) => asked((gateway) => gateway.chat(call)),
    isKnown: (call) => asked((gateway) => gateway.isKnown(call)),
    events: (call) => asked((gateway) => gateway.events(call)),
    stop: (call) => asked((gateway) => gateway.stop(call)),
    forgetConversation: (...call) => asked((gateway) => gateway.forgetConversation(...call)),
  };
}

/** The responses that the gateway of the moment keeps. */
export function lastingResponses(lasting: LastingServer<ServeStanding>): KeptAnswers {
  const asked = <Told>(what: (kept: KeptAnswers) => Promise<Told>): Promise<Told> =>
    lasting.ask(async () => what(lasting.usable.gateway.responses));
  return {
    find: (principal, id) => asked((kept) => kept.find(principal, id)),
    inputOf: (principal, id) => asked((kept) => kept.inputOf(principal, id)),
    read: (call) => asked((kept) => kept.read(call)),
    remove: (principal, id) => asked((kept) => kept.remove(principal, id)),
    conversations: {
      begin: (...call) => asked(({ conversations }) => conversations.begin(...call)),
      find: (...call) => asked(({ conversations }) => conversations.find(...call)),
      change: (...call) => asked(({ conversations }) => conversations.change(...call)),
      remove: (...call) => asked(({ conversations }) => conversations.remove(...call)),
    },
  };
}

/** The API keys of the moment, for the commands on this machine. */
export function lastingKeys(lasting: LastingServer<ServeStanding>): KeyAdmin {
  const admin = (): KeyAdmin => keyAdmin(lasting.usable.keys, lasting.usable.spending);
  return {
    create: async (principal, label, limits) => admin().create(principal, label, limits),
    list: async () => admin().list(),
    revoke: async (id) => admin().revoke(id),
  };
}

/** Deletes what the store of the moment keeps of a principal. */
export function lastingForget(
  lasting: LastingServer<ServeStanding>,
): (wish: ForgetWish) => Promise<Forgotten> {
  return async (wish) => {
    const { store, keys, spending, gateway, server } = lasting.usable;
    const erase: ForgetParts["erase"] = (which) => gateway.erase(which);
    return forgetPrincipal(
      { store, keys, spending, erase, stop: (principal) => server.stopAll(principal) },
      wish,
    );
  };
}

/** One line for each thing that an operator should know; each names the store. */
export function logNews(logger: Logger, store: string): (news: StoreNews) => void {
  return (news) => {
    switch (news.kind) {
      case "failed":
        logger.warn(
          { store, reason: news.reason.message },
          "the store failed: nothing is acknowledged until it is opened anew",
        );
        return;
      case "refused":
        logger.warn(
          { store, reason: news.reason.message, failures: news.failures },
          "the store could not be opened anew",
        );
        return;
      case "back":
        logger.warn({ store, downMs: news.downMs }, "the store is back: clients resume by themselves");
        return;
      case "unclean":
        logger.warn({ store, err: news.reason }, "the store that failed was not closed in good order");
        return;
      case "given_up":
        logger.error(
          { store, reason: news.reason.message, failures: news.failures },
          "the store could not be opened anew too often: the server ends with exit code 75",
        );
        return;
    }
  };
}
