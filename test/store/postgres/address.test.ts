/** What an address, a password file and a server's settings mean. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { parseAddress, passwordIn, shown } from "../../../src/store/postgres/address.ts";
import { judgeSchema } from "../../../src/store/postgres/schema.ts";
import { judgeSettings, type Settings } from "../../../src/store/postgres/settings.ts";

const parsed = (text: string, variables = {}): ReturnType<typeof parseAddress> =>
  parseAddress(text, variables, "/root-of-u");

suite("addresses", () => {
  test("an address says everything, or libpq's variables and defaults do", () => {
    assert.deepEqual(parsed("postgres://ann:s%40crit@db.example:6000/work?sslmode=require"), {
      hosts: [{ host: "db.example", port: 6000 }],
      user: "ann",
      database: "work",
      password: "s@crit",
      passfile: "/root-of-u/.pgpass",
      protections: ["encrypted"],
      rootCertFile: undefined,
      certFile: undefined,
      keyFile: undefined,
      connectTimeoutMs: 10_000,
    });
    const bare = parsed("postgresql://", {
      PGHOST: "h",
      PGPORT: "1",
      PGUSER: "u",
      PGPASSWORD: "p",
      PGSSLMODE: "disable",
    });
    assert.deepEqual(
      [bare.hosts, bare.user, bare.database, bare.password],
      [[{ host: "h", port: 1 }], "u", "u", "p"],
    );
    assert.deepEqual(bare.protections, ["plain"]);
    assert.deepEqual(parsed("postgres://", { USER: "me" }).hosts, [{ host: "localhost", port: 5432 }]);
  });

  test("several hosts, IPv6 and sockets", () => {
    const { hosts } = parsed("postgres://u@a:1,b,[::1]:3/d?target_session_attrs=read-write");
    assert.deepEqual(hosts, [
      { host: "a", port: 1 },
      { host: "b", port: 5432 },
      { host: "::1", port: 3 },
    ]);
    const socket = parsed("postgres:///d?host=/run/postgresql");
    assert.deepEqual(socket.hosts, [{ host: "/run/postgresql", port: 5432 }]);
    assert.deepEqual(socket.protections, ["plain"]);
  });

  test("TLS as libpq has it: prefer by default, a root certificate makes require verify", () => {
    assert.deepEqual(parsed("postgres://h/d").protections, ["encrypted", "plain"]);
    assert.deepEqual(parsed("postgres://h/d?sslmode=verify-full").protections, ["verify-full"]);
    assert.deepEqual(parsed("postgres://h/d?sslmode=require&sslrootcert=/ca.pem").protections, ["verify-ca"]);
    assert.throws(() => parsed("postgres://h/d?sslmode=verify-ca"), /sslrootcert/);
  });

  test("E4: what is wrong is said without the password, and what is shown has none", () => {
    const secret = "canary-42";
    for (const wrong of [
      `postgres://u:${secret}@h:x/d`,
      `postgres://u:${secret}@h/d?sslmode=loud`,
      `postgres://u:${secret}@h/d?nonsense=1`,
      `postgres//u:${secret}@h`,
      `postgres://u:${secret}%@h/d`,
    ]) {
      assert.throws(
        () => parsed(wrong),
        (error) => error instanceof Error && !error.message.includes(secret) && error.message.length > 0,
      );
    }
    assert.equal(shown(parsed(`postgres://u:${secret}@h/d`)), "postgres://h:5432/d");
  });

  test("a password file: the first line that fits, with stars and escapes", () => {
    const file = ["# a comment", "h:5432:d:other:no", "h:*:*:u:with\\:colon\\\\", "*:*:*:*:last"].join("\n");
    const at = { host: "h", port: 5432 };
    assert.equal(passwordIn(file, at, { database: "d", user: "u" }), "with:colon\\");
    assert.equal(passwordIn(file, at, { database: "d", user: "x" }), "last");
    assert.equal(
      passwordIn("localhost:*:*:*:s", { host: "/run", port: 1 }, { database: "d", user: "x" }),
      "s",
    );
    assert.equal(passwordIn("", at, { database: "d", user: "x" }), undefined);
  });
});

suite("settings", () => {
  const good: Settings = {
    versionNumber: 140_005,
    encoding: "UTF8",
    isReplica: false,
    isReadOnly: false,
    isReadOnlyByDefault: false,
    fsync: "on",
    fullPageWrites: "on",
    synchronousCommit: "on",
    synchronousStandbys: "",
    greetedBy: 9,
    answeredBy: 9,
  };

  test("A3: what a commit survives follows from the settings", () => {
    const usable = { kind: "usable", durability: "fsync", synchronousCommit: "on", isPooled: false };
    assert.deepEqual(judgeSettings(good), usable);
    assert.deepEqual(
      judgeSettings({ ...good, synchronousStandbys: "ANY 1 (a, b)", synchronousCommit: "remote_apply" }),
      {
        ...usable,
        durability: "quorum",
        synchronousCommit: "remote_apply",
      },
    );
    assert.deepEqual(judgeSettings({ ...good, greetedBy: 1 }), { ...usable, isPooled: true });
  });

  const wrong: readonly (readonly [Partial<Settings>, RegExp])[] = [
    [{ versionNumber: 130_010 }, /14 or later/],
    [{ isReplica: true }, /name the primary/],
    [{ isReadOnly: true, isReadOnlyByDefault: true }, /default_transaction_read_only = off/],
    [{ encoding: "LATIN1" }, /ENCODING 'UTF8'/],
    [{ fsync: "off" }, /set fsync = on/],
    [{ fullPageWrites: "off" }, /set full_page_writes = on/],
    [{ synchronousCommit: "off" }, /set synchronous_commit = on/],
    [{ synchronousCommit: "local" }, /set synchronous_commit = on/],
    [{ synchronousCommit: "remote_write" }, /set synchronous_commit = on/],
  ];
  for (const [change, message] of wrong) {
    test(`F5: ${Object.entries(change).join(" ")} is refused, and what to set is said`, () => {
      const verdict = judgeSettings({ ...good, ...change });
      assert.ok(verdict.kind === "unusable");
      assert.match(verdict.why, message);
    });
  }

  test("F5: a server that is just being promoted is asked again, and not given up for its settings", () => {
    const promoted = judgeSettings({ ...good, isReadOnly: true });
    assert.deepEqual(promoted, {
      kind: "unusable",
      isElsewhere: true,
      why: "this server is just being promoted to a primary",
    });
  });
});

suite("the version of the tables", () => {
  const migrations = [
    { version: 1, usableFrom: 1, sql: "a" },
    { version: 2, usableFrom: 1, sql: "b" },
  ];
  test("what is missing is applied in order; newer tables are used as long as they allow it", () => {
    const kindOf = (version: number, usableFrom: number): string =>
      judgeSchema({ version, usableFrom }, migrations).kind;
    assert.deepEqual(judgeSchema({ version: 0, usableFrom: 0 }, migrations), {
      kind: "behind",
      missing: migrations,
    });
    assert.equal(kindOf(1, 1), "behind");
    assert.equal(kindOf(2, 1), "current");
    assert.equal(kindOf(3, 2), "ahead");
    assert.equal(kindOf(3, 3), "too_new");
  });
});
