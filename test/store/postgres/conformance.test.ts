/** The PostgreSQL stores pass the same suites as the others, with a second node's handle, and over a restart. */
import { after, before } from "node:test";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/index.ts";
import { blobStoreConformance } from "../../conformance/blob-store.ts";
import { lettersConformance } from "../../conformance/letters.ts";
import { streamStoreConformance } from "../../conformance/stream-store.ts";
import { tableStoreConformance } from "../../conformance/table-store.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server.close());

interface Opened {
  readonly url: string;
  readonly store: PostgresStore;
  readonly peer: PostgresStore;
  readonly clock: { advance(ms: number): void };
}

async function opened(): Promise<Opened> {
  const url = await server.emptyDatabase();
  const store = await openPostgresStore(url);
  const clock = await server.manualClock(url);
  return { url, store, clock, peer: await openPostgresStore(url) };
}

streamStoreConformance("the stream store in PostgreSQL", async () => {
  const { url, store, peer, clock } = await opened();
  let { blobs } = store;
  return {
    store: store.streams,
    peer: peer.streams,
    clock,
    blobs: () => blobs,
    reopen: async () => {
      await store.close();
      const again = await openPostgresStore(url);
      ({ blobs } = again);
      return again.streams;
    },
  };
});

lettersConformance("letters in PostgreSQL", async (t) => {
  const url = await server.emptyDatabase();
  const [own, peer] = await Promise.all([
    openPostgresStore(url, { isRinging: true }),
    openPostgresStore(url, { isRinging: true }),
  ]);
  t.after(() => Promise.all([own.close(), peer.close()]));
  return { store: own.streams, letters: own.letters, peer: peer.letters };
});

blobStoreConformance("the blob store in PostgreSQL", async () => {
  const { url, store, peer, clock } = await opened();
  await peer.close();
  return {
    store: store.blobs,
    clock,
    damage: async () => {
      await asked(url, "UPDATE holdfast.blob_parts SET bytes = decode(repeat('00', length(bytes)), 'hex')");
    },
    reopen: async () => {
      await store.close();
      return (await openPostgresStore(url)).blobs;
    },
  };
});

tableStoreConformance("the table store in PostgreSQL", async () => {
  const { url, store, peer, clock } = await opened();
  return {
    store: store.tables,
    peer: peer.tables,
    clock,
    reopen: async () => {
      await store.close();
      return (await openPostgresStore(url)).tables;
    },
  };
});
