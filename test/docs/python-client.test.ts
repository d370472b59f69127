/** `examples/client.py`: a client in Python whose network is cut and whose server is killed in mid-answer. Where there is no python3, it is skipped. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { serve, type ServeOptions } from "../../src/node/index.ts";
import { serverLog } from "../../src/node/server-log.ts";
import { keptPort } from "../kept-port.ts";
import { Relay } from "../transport/relay.ts";
import { repository } from "./entry-points.ts";

const EXAMPLE = join(repository, "examples/client.py");
const hasPython = spawnSync("python3", ["--version"]).status === 0;

test("it has at most 150 lines, and imports nothing but the standard library", () => {
  const text = readFileSync(EXAMPLE, "utf8");
  assert.ok(text.split("\n").length <= 150);
  const imported = [...text.matchAll(/^(?:import|from) (?<name>\w+)/gm)].map(
    (match) => match.groups?.["name"],
  );
  assert.deepEqual(imported, ["http", "json", "os", "sys", "time", "urllib", "uuid"]);
});

test(
  "G1: a client in Python reads on over cuts and a restart, and has each word once",
  { skip: !hasPython },
  async (t) => {
    const home = mkdtempSync(join(tmpdir(), "holdfast-python-"));
    t.after(() => rmSync(home, { recursive: true, force: true }));
    const env = { HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url") };
    const machine = { env, home, platform: process.platform, now: Date.now };
    const options: ServeOptions = {
      data: join(home, "data"),
      port: await keptPort(),
      machine,
      logger: serverLog("silent"),
    };
    const first = await serve(options);
    t.after(() => first.close());
    const relay = await Relay.open(Number(new URL(first.url).port));
    t.after(() => relay.close());
    const python = spawn("python3", [EXAMPLE, "count to 60 every 20 ms"], {
      env: {
        PATH: process.env["PATH"],
        HOLDFAST_URL: `http://127.0.0.1:${relay.port}`,
        HOLDFAST_API_KEY: first.apiKey,
      },
    });
    t.after(() => python.kill("SIGKILL"));
    const closed = once(python, "close");
    let [output, errors] = ["", ""];
    python.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
    const until = async (word: string): Promise<void> => {
      while (!output.includes(word)) {
        assert.equal(python.exitCode, null, errors);
        await Promise.race([once(python.stdout, "data"), closed]);
      }
    };
    python.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    await until(" 5 ");
    relay.cut();
    await until(" 20 ");
    await first.close();
    await using _second = await serve(options);
    await closed;
    assert.equal(python.exitCode, 0, errors);
    assert.equal(output.trim(), Array.from({ length: 60 }, (_, at) => at + 1).join(" "));
    assert.ok(errors.split("reading on").length > 2, errors);
  },
);
