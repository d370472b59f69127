import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { BLOB_DEFAULTS } from "../../../src/server/http/blob-limits.ts";
import { FAILED_SIGN_INS } from "../../../src/server/http/sign-in.ts";
import { ROUTES } from "../../../src/server/http/routes.ts";
import { BODY_BYTES_MAX } from "../../../src/transport/node/body-budget.ts";
import { PORT_DEFAULTS } from "../../../src/transport/node/port-limits.ts";

const manual = await readFile(new URL("../../../docs/OPERATIONS.md", import.meta.url), "utf8");

/** The second column of the row that begins so. */
function valueOf(row: string): string | undefined {
  const line = manual.split("\n").find((each) => each.startsWith(`| ${row} `));
  return line?.split("|")[2]?.trim();
}

test("the operator's manual has every path that is served", () => {
  const [section = ""] = manual.split("## Who is let in");
  const told = [...section.matchAll(/^\| (`[^|]*)\|/gm)].flatMap(([, cell = ""]) => {
    const [first = "", ...others] = [...cell.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);
    const folder = first.slice(0, first.lastIndexOf("/") + 1);
    return [first].concat(others.map((name) => `${folder}${name}`));
  });
  assert.deepEqual(told.toSorted(), [...ROUTES.keys()].toSorted());
});

test("the limits and timeouts of the operator's manual are those of the code", () => {
  const seconds = (ms: number): string => `${ms / 1000} s`;
  const mib = (bytes: number): string => `${bytes / 1024 / 1024} MiB`;
  const rows: Record<string, string> = {
    "open sockets": PORT_DEFAULTS.connectionsMax.toLocaleString("en"),
    "HTTP/2 streams on one connection": PORT_DEFAULTS.streamsPerConnectionMax.toLocaleString("en"),
    "headers of a request": `${PORT_DEFAULTS.headerBytesMax / 1024} KiB`,
    "memory for blobs under way": `${mib(BLOB_DEFAULTS.heldBytesMax)}, one principal half`,
    "bodies of appends under way": `${mib(BODY_BYTES_MAX)}, one principal half`,
    "blobs that wait in line": `${BLOB_DEFAULTS.waitingMax}, of one principal half`,
    "the end of a response that is not taken": seconds(PORT_DEFAULTS.lastBytesTimeoutMs),
    "first bytes of a connection, TLS handshake": seconds(PORT_DEFAULTS.firstBytesTimeoutMs),
    "headers of an HTTP/1.1 request": seconds(PORT_DEFAULTS.headersTimeoutMs),
    "an HTTP/1.1 request as a whole": seconds(PORT_DEFAULTS.requestTimeoutMs),
    "a connection that the server has ended": seconds(PORT_DEFAULTS.hangUpTimeoutMs),
    "a connection without a request": seconds(PORT_DEFAULTS.idleTimeoutMs),
    "an HTTP/2 peer that does not answer a ping": seconds(2 * PORT_DEFAULTS.pingIntervalMs),
    "a blob that does not move": seconds(BLOB_DEFAULTS.stallMs),
    "a blob as a whole": seconds(BLOB_DEFAULTS.totalMs),
  };
  for (const [row, value] of Object.entries(rows)) assert.equal(valueOf(row), value, row);
  assert.ok(manual.includes(`After ${FAILED_SIGN_INS.burst} failures from one address`));
});
