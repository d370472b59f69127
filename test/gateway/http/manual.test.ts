import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { HTTP_LIMITS } from "../../../src/gateway/http/index.ts";
import { GATEWAY_LIMITS } from "../../../src/gateway/index.ts";
import { RETRY_CODES } from "../../../src/gateway/openai/gateway-error.ts";

test("the gateway's limits in the operator's manual are those of the code", async () => {
  const manual = await readFile(new URL("../../../docs/OPERATIONS.md", import.meta.url), "utf8");
  const section = /^## The gateway$[^]*?(?=^## )/m.exec(manual)?.[0] ?? "";
  const valueOf = (row: string): string | undefined => {
    const line = section.split("\n").find((each) => each.startsWith(`| ${row} `));
    return line?.split("|")[2]?.trim();
  };
  const mib = (bytes: number): string => `${bytes / 1024 / 1024} MiB`;
  const told = {
    "body of a request, also once it is unpacked": mib(HTTP_LIMITS.bodyBytesMax),
    "bodies under way, as sent and once unpacked": `${mib(HTTP_LIMITS.bodiesBytesMax)}, one principal half`,
    "body that comes slowly": `${HTTP_LIMITS.bodyTimeoutMs / 1000} s`,
    "its JSON": `64 deep, ${HTTP_LIMITS.jsonValuesMax.toLocaleString("en-US")} values`,
    "a client that takes nothing of its answer": `${HTTP_LIMITS.stalledMs / 1000} s`,
    "open streams of a principal at the gateway": `\`--open-streams\`, ${GATEWAY_LIMITS.openStreamsMax.toLocaleString("en-US")}`,
    "memory of sessions that wait for tools": `${mib(GATEWAY_LIMITS.parkedBytesMax)}, one principal half`,
  };
  for (const [row, value] of Object.entries(told)) assert.equal(valueOf(row), value, row);
  assert.equal(HTTP_LIMITS.headHeldMs, 10_000, "ten seconds, says the text");
  assert.equal(HTTP_LIMITS.heartbeatMs, 10_000, "ten seconds, says the text");
});

test("the manual has the closed list of codes that mean: ask again", async () => {
  const manual = await readFile(new URL("../../../docs/GATEWAY.md", import.meta.url), "utf8");
  const table = /^\| code +\| when[^]*?\n\n/m.exec(manual)?.[0] ?? "";
  const codes = [...table.matchAll(/^\| `(?<code>\w+)`/gm)].map(({ groups }) => groups?.["code"]);
  assert.deepEqual(codes, RETRY_CODES);
});
