/**
 * The home key: given, kept, found again, and refused when it is not the right one.
 */
import assert from "node:assert/strict";
import { chmodSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { type HomeKeyOptions, resolveHomeKey } from "../../src/client-node/home-key.ts";
import { filePlace, type KeyPlace, keyringPlace, parseHomeKey } from "../../src/client-node/key-places.ts";
import type { Keyring, KeyringAnswer } from "../../src/client-node/keyring.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";
import { temporaryDirectory } from "./temporary.ts";

const GIVEN = new Uint8Array(32).fill(1);
const OTHER = new Uint8Array(32).fill(2);

/** A keyring in memory that can be out of reach. */
class MemoryKeyring implements Keyring {
  readonly entries = new Map<string, string>();
  isReachable = true;
  /** Whether it takes what it is given although it does not answer. */
  writesAnyway = false;

  async read(name: string): Promise<KeyringAnswer> {
    if (!this.isReachable) return { kind: "unavailable", reason: "out of reach" };
    const secret = this.entries.get(name);
    return secret === undefined ? { kind: "none" } : { kind: "found", secret };
  }

  async write(name: string, secret: string): Promise<KeyringAnswer> {
    if (this.isReachable || this.writesAnyway) this.entries.set(name, secret);
    return this.isReachable ? { kind: "written" } : { kind: "unavailable", reason: "out of reach" };
  }
}

class Scope {
  readonly keys: string;
  readonly keyring = new MemoryKeyring();
  readonly notices: string[] = [];
  readonly #tables = memoryTableStore({ now: Date.now });
  readonly #directory: string;

  constructor(t: TestContext) {
    this.#directory = temporaryDirectory(t);
    this.keys = join(temporaryDirectory(t), "keys");
  }

  resolve(given?: Uint8Array, places?: (scopeId: string) => readonly KeyPlace[]): Promise<Uint8Array> {
    const options: HomeKeyOptions = {
      tables: this.#tables,
      sealing: nodeSealing(),
      directory: this.#directory,
      given,
      keyLock: join(this.#directory, "home-key.lock"),
      places:
        places ??
        ((scopeId) => [
          keyringPlace(this.keyring, scopeId),
          filePlace(this.keys, scopeId, "the-data", (notice) => this.notices.push(notice)),
        ]),
    };
    return resolveHomeKey(options);
  }

  keyFile(): string {
    const [name = ""] = readdirSync(this.keys);
    return join(this.keys, name);
  }
}

test("a key in the keyring is made once and found again, and nothing is in a file", async (t) => {
  const scope = new Scope(t);
  const homeKey = await scope.resolve();
  assert.equal(homeKey.length, 32);
  assert.deepEqual(await scope.resolve(), homeKey);
  assert.equal(scope.keyring.entries.size, 1);
  assert.deepEqual(scope.notices, []);
  assert.throws(() => readdirSync(scope.keys), { code: "ENOENT" });
});

test("without a keyring the key lies in a file of mode 0600, said aloud once", async (t) => {
  const scope = new Scope(t);
  scope.keyring.isReachable = false;
  const homeKey = await scope.resolve();
  assert.deepEqual(await scope.resolve(), homeKey);
  assert.equal(scope.notices.length, 1);
  assert.match(scope.notices[0] ?? "", /0600/);
  assert.equal(lstatSync(scope.keyFile()).mode & 0o777, 0o600);
  assert.equal(lstatSync(scope.keys).mode & 0o777, 0o700);
  assert.deepEqual(parseHomeKey(readFileSync(scope.keyFile(), "utf8"), "the file"), homeKey);
  scope.keyring.isReachable = true;
  assert.deepEqual(await scope.resolve(), homeKey, "a keyring that appears later changes nothing");
});

test("a keyring that took the key and did not say so does no harm later", async (t) => {
  const scope = new Scope(t);
  scope.keyring.isReachable = false;
  scope.keyring.writesAnyway = true;
  const homeKey = await scope.resolve();
  scope.keyring.isReachable = true;
  assert.deepEqual(await scope.resolve(), homeKey);
});

test("a file that others could read is closed to them, with a notice", async (t) => {
  const scope = new Scope(t);
  scope.keyring.isReachable = false;
  const homeKey = await scope.resolve();
  chmodSync(scope.keyFile(), 0o644);
  assert.deepEqual(await scope.resolve(), homeKey);
  assert.equal(scope.notices.length, 2);
  assert.match(scope.notices[1] ?? "", /could be read by other users/);
  assert.equal(lstatSync(scope.keyFile()).mode & 0o777, 0o600);
});

test("E1: a scope whose key is lost is refused, and no new key is made", async (t) => {
  const scope = new Scope(t);
  scope.keyring.isReachable = false;
  await scope.resolve();
  rmSync(scope.keyFile());
  await assert.rejects(scope.resolve(), { code: "stream_failed", message: /missing.*HOLDFAST_HOME_KEY/ });
  scope.keyring.isReachable = true;
  await assert.rejects(scope.resolve(), { code: "stream_failed", message: /missing/ });
  assert.deepEqual(readdirSync(scope.keys), []);
  assert.equal(scope.keyring.entries.size, 0);
});

test("E1: a keyring out of reach is named as the reason", async (t) => {
  const scope = new Scope(t);
  await scope.resolve();
  scope.keyring.isReachable = false;
  await assert.rejects(scope.resolve(), { code: "stream_failed", message: /keyring: out of reach/ });
});

test("E1: another key than the scope's is refused, whether given or kept", async (t) => {
  const scope = new Scope(t);
  assert.deepEqual(await scope.resolve(GIVEN), GIVEN);
  assert.deepEqual(await scope.resolve(GIVEN), GIVEN);
  await assert.rejects(scope.resolve(OTHER), { code: "stream_failed", message: /not the home key/ });
  const wrong: KeyPlace = {
    name: "a wrong place",
    read: async () => ({ kind: "found", homeKey: OTHER }),
    write: async () => ({ kind: "written" }),
  };
  await assert.rejects(
    scope.resolve(undefined, () => [wrong]),
    { code: "stream_failed" },
  );
});

test("a key that can be kept nowhere is refused with what to do", async (t) => {
  const scope = new Scope(t);
  scope.keyring.isReachable = false;
  const notADirectory = join(temporaryDirectory(t), "file");
  writeFileSync(notADirectory, "");
  const places = (scopeId: string): readonly KeyPlace[] => [
    keyringPlace(scope.keyring, scopeId),
    filePlace(notADirectory, scopeId, "the-data", () => undefined),
  ];
  await assert.rejects(scope.resolve(undefined, places), {
    code: "unavailable",
    message: /kept nowhere; set HOLDFAST_HOME_KEY/,
  });
});

test("a damaged key file is refused and never written over", async (t) => {
  const scope = new Scope(t);
  scope.keyring.isReachable = false;
  await scope.resolve();
  writeFileSync(scope.keyFile(), "c2hvcnQ\n");
  await assert.rejects(scope.resolve(), { code: "invalid_argument", message: /32 bytes in base64url/ });
  assert.equal(readFileSync(scope.keyFile(), "utf8"), "c2hvcnQ\n");
});

test("E4: what is wrong with a key is said without the key", () => {
  for (const text of ["", "canary", "A".repeat(42), "A".repeat(44), "not base64url ".repeat(4)]) {
    const parse = (): unknown => parseHomeKey(text, "HOLDFAST_HOME_KEY");
    assert.throws(
      parse,
      ({ message }: Error) =>
        message.startsWith("HOLDFAST_HOME_KEY must be 32 bytes") && !message.includes("canary"),
    );
  }
  assert.deepEqual(parseHomeKey(`${Buffer.from(GIVEN).toString("base64url")}=\n`, "x"), GIVEN);
});
