/**
 * The front door for browsers: settings in, a client with journals, home key and a shared connection out.
 */
import { given } from "../../protocol/given.ts";
import { KEY_BYTES, webSealing } from "../../sealing/index.ts";
import { fetchConnect } from "../../transport/fetch-transport.ts";
import type { BlobCalls, Connect } from "../../transport/transport.ts";
import type { ClientOptions } from "../client-options.ts";
import { reportBug } from "../client.ts";
import type { JournalStore } from "../journal-store.ts";
import { withTraffic } from "../traffic.ts";
import { BrowserClient, type BrowserHomeKeys } from "./browser-client.ts";
import { type BrowserDatabase, browserDatabase } from "./database.ts";
import { browserHomeKey } from "./home-key.ts";
import { indexedDbJournalStore } from "./indexeddb-journal-store.ts";
import { type BrowserClientOptions, settle, type Settings } from "./options.ts";
import type { Platform } from "./platform.ts";
import { SharedConnection } from "./shared-connection.ts";
import { thisBrowser, thisOrigin, thisPage } from "./this-browser.ts";
import { onWakeUp } from "./wake-ups.ts";
import { type WebWriterLocks, webWriterLocks } from "./writer-locks.ts";

const HOME_KEY_NOTICE =
  "Holdfast keeps its journals in this browser profile, sealed with a key in the same profile: obfuscated, not apart.";

export async function openClient(options: BrowserClientOptions = {}): Promise<BrowserClient> {
  const { onBug, tools, onStall, onTraffic, resumesMax } = options;
  const page = thisPage();
  const settings = settle(options, thisOrigin());
  const platform = thisBrowser();
  const sealing = webSealing();
  const kept = settings.persistence ? await openJournals(settings, platform) : undefined;
  const transport = transportOf(options, settings, platform);
  const clientOptions: ClientOptions<BrowserHomeKeys> = {
    connect:
      onTraffic === undefined
        ? transport.connect
        : withTraffic(transport.connect, onTraffic, onBug ?? reportBug),
    blobs: transport.blobs,
    sealing,
    // Without journals nothing outlives this page, so neither need the key.
    homeKey: kept?.homeKey ?? settings.homeKey ?? crypto.getRandomValues(new Uint8Array(KEY_BYTES)),
    credentials: settings.credentials,
    stream: settings.stream,
    ...given({ onBug, tools, onStall, resumesMax }),
    ...given({ journals: kept?.journals, writerLocks: kept?.writerLocks }),
  };
  const client = new BrowserClient(clientOptions, {
    writerLocks: kept?.writerLocks,
    shelf: kept && { database: kept.database, sealer: sealing.homeSealer(kept.homeKey) },
    release: () => {
      unwatch();
      transport.close();
      kept?.database.close();
    },
  });
  const unwatch = page === undefined ? () => undefined : onWakeUp(page, () => client.wake());
  return client;
}

interface Kept {
  readonly database: BrowserDatabase;
  readonly journals: JournalStore;
  readonly homeKey: BrowserHomeKeys;
  readonly writerLocks: WebWriterLocks;
}

async function openJournals(settings: Settings, platform: Platform): Promise<Kept> {
  const database = browserDatabase(platform.indexedDB, settings.database);
  const journals = indexedDbJournalStore(database, platform.keyRanges);
  const writerLocks = webWriterLocks(platform.locks, settings.database);
  if (settings.homeKey !== undefined) return { database, journals, homeKey: settings.homeKey, writerLocks };
  const { key, isNew } = await browserHomeKey(database);
  if (isNew) settings.onNotice(HOME_KEY_NOTICE);
  return { database, journals, homeKey: key, writerLocks };
}

interface Transport {
  readonly connect: Connect;
  readonly blobs: BlobCalls | undefined;
  close(): void;
}

function transportOf(own: BrowserClientOptions, settings: Settings, platform: Platform): Transport {
  if (own.connect !== undefined) return { connect: own.connect, blobs: own.blobs, close: () => undefined };
  const { url } = settings;
  const transport = fetchConnect({ url, shared: true });
  if (!settings.shareConnection) return transport;
  const shared = new SharedConnection({ url, connect: transport.connect, platform });
  return {
    connect: shared.connect,
    // A blob travels from this tab by itself: it is one request, and the leader has enough to carry.
    blobs: transport.blobs,
    close: () => {
      shared.close();
      transport.close();
    },
  };
}
