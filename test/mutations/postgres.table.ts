/** What the PostgreSQL store decides, weakened. */
import type { Mutation } from "./mutation.ts";

const DECISIONS = "test/store/postgres/decisions.test.ts";
const FAULTS = "test/store/postgres/faults.test.ts";
const FAILOVER = "test/store/postgres/failover.test.ts";
const MIGRATING = "test/store/postgres/migrations.test.ts";
const MIGRATE = "src/store/postgres/migrate.ts";
const FATE = "src/store/postgres/group-fate.ts";
const VERDICTS = "src/store/postgres/verdicts.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "A3: a commit that came with a warning is acknowledged",
    file: DECISIONS,
    test: "A3: only a commit without a warning is one",
    patches: [{ file: FATE, from: "return hasWarning\n", to: 'return hasWarning && command === ""\n' }],
  },
  {
    name: "A3: a group whose answer was lost is sent again without a look at the receipt",
    file: FAULTS,
    test: "A3: of a commit (answer) is resolved by the receipt: it happened once, and is told once",
    patches: [
      { file: FATE, from: "return receipt.groupNumber >= sent;", to: "return receipt.groupNumber > sent;" },
    ],
  },
  {
    name: "D1: a group of a term that is over still writes",
    file: FAULTS,
    test: "A3: of a commit (late) is resolved by the receipt: it happened once, and is told once",
    patches: [
      {
        file: "src/store/postgres/group-statements.ts",
        from: "WHERE store = $1 AND term = $2 RETURNING",
        to: "WHERE store = $1 AND (term = $2 OR true) RETURNING",
      },
    ],
  },
  {
    name: "D1: the statement that commits does not compare the epoch",
    file: "test/store/postgres/conformance.test.ts",
    test: "D1: a claim raises the host epoch, and the fenced host's commit is refused",
    patches: [
      {
        file: "src/store/postgres/commit-sql.ts",
        from: "AND s.host_epoch = i.host_epoch AND s.next_seqno",
        to: "AND s.next_seqno",
      },
    ],
  },
  {
    name: "a commit is told what a later one of its chain changed",
    file: DECISIONS,
    test: "rows are locked before a group that does not only commit, or that changes a state behind another commit",
    patches: [
      {
        file: "src/store/postgres/plan.ts",
        from: "chain.length > 1 && !isNoChange(shapeOf(chain).change)",
        to: "chain.length > 9 && !isNoChange(shapeOf(chain).change)",
      },
    ],
  },
  {
    name: "D1: a commit read back does not look at the epoch",
    file: DECISIONS,
    test: "D1: heads that stand elsewhere, another epoch or another stream of the name are a conflict",
    patches: [{ file: VERDICTS, from: "state.hostEpoch === after.hostEpoch &&", to: "" }],
  },
  {
    name: "what the database refuses takes its neighbours with it",
    file: FAULTS,
    test: "what the database refuses fails alone",
    patches: [
      {
        file: "src/store/postgres/group-writer.ts",
        from: 'if (waiting.length === 1) return only?.reject(unavailable("the database refused it", fate.cause));',
        to: "if (only !== undefined) throw fate.cause;",
      },
    ],
  },
  {
    name: "writes pass an act that waits",
    file: DECISIONS,
    test: "nothing passes a statement but statements",
    patches: [
      {
        file: "src/store/postgres/plan.ts",
        from: "if (hasStatement || keys.some((key) => rows.has(key))) return at;",
        to: "if (keys.some((key) => rows.has(key))) return at;",
      },
    ],
  },
  {
    name: "a migration that a silent node began is waited for without end",
    file: MIGRATING,
    test: "a node that falls silent in the middle of a migration loses it",
    patches: [
      {
        file: MIGRATE,
        from: "SET LOCAL idle_in_transaction_session_timeout = ${silenceMsMax}; ",
        to: "",
      },
    ],
  },
  {
    name: "two nodes migrate at once without a lock",
    file: MIGRATING,
    test: "a migration waits for the lock row, and for nothing else",
    patches: [
      {
        file: MIGRATE,
        from: "holdfast.schema_version FOR UPDATE",
        to: "holdfast.schema_version",
      },
    ],
  },
  {
    name: "a reader keeps a plan that reads the newest partition whole",
    file: "test/store/postgres/plans.test.ts",
    test: "a store at work reads no table whole, with the plans that its connections keep",
    patches: [
      {
        file: "src/store/postgres/readers.ts",
        from: "if (!connection.settings.isPooled) await connection.ask(BY_KEYS);",
        to: "",
      },
    ],
  },
  {
    name: "F1: a close does not cut a bell that begins to listen",
    file: "test/store/postgres/faults.test.ts",
    test: "F1: a store that is closed while its bell begins to listen",
    patches: [
      {
        file: "src/store/postgres/bell.ts",
        from: `        this.#connection = connection;
        connection.onNotification = (payload) => this.#heard(payload);
        await connection.ask({ text: \`LISTEN \${CHANNEL}\` });
`,
        to: `        connection.onNotification = (payload) => this.#heard(payload);
        await connection.ask({ text: \`LISTEN \${CHANNEL}\` });
        this.#connection = connection;
`,
      },
    ],
  },
  {
    name: "F5: a server that is just being promoted is given up for its settings",
    file: "test/store/postgres/address.test.ts",
    test: "F5: a server that is just being promoted is asked again",
    patches: [
      {
        file: "src/store/postgres/settings.ts",
        from: `return unusable("this server is just being promoted to a primary", true);`,
        to: `return unusable("this server is just being promoted to a primary");`,
      },
    ],
  },
  {
    name: "D7: a closed range of the log is never dropped",
    file: "test/store/postgres/partitions.test.ts",
    test: "D7: over twenty retention periods under load the size on disk stays where it was, with one stream alive all the time",
    patches: [
      {
        file: "src/store/postgres/partitions.ts",
        from: "if (isLittle(await leftOf(connection, range)))",
        to: "if (false && isLittle(await leftOf(connection, range)))",
      },
    ],
  },
  {
    name: "E4: a certificate is checked against localhost where the store's address is an IP address",
    file: "test/store/postgres/credentials.test.ts",
    test: "E4: sslmode=verify-full refuses a host that the certificate does not name",
    patches: [
      {
        file: "src/store/postgres/driver.ts",
        from: "{ servername: host } : { host }",
        to: "{ servername: host } : { host: 'localhost' }",
      },
    ],
  },
  {
    name: "E4: a certificate is not checked at all",
    file: "test/store/postgres/credentials.test.ts",
    test: "E4: a certificate of nobody is refused without its root",
    patches: [
      {
        file: "src/store/postgres/driver.ts",
        from: 'rejectUnauthorized: protection !== "encrypted"',
        to: "rejectUnauthorized: false",
      },
    ],
  },
  {
    name: "E4: a password file that others can read is used",
    file: "test/store/postgres/credentials.test.ts",
    test: "E4: the password comes from the address, PGPASSWORD or a password file, and is in no refusal",
    patches: [
      { file: "src/store/postgres/driver.ts", from: "((mode ?? 0) & 0o077) !== 0", to: "mode === -1" },
    ],
  },
  {
    name: "A3: what a commit survives is left to the connection's setting",
    file: "test/store/postgres/faults.test.ts",
    test: "A3: each transaction says for itself how durable it is",
    patches: [
      {
        file: "src/store/postgres/group-statements.ts",
        from: "BEGIN; SET LOCAL synchronous_commit = ${synchronousCommit}",
        to: "BEGIN; SET LOCAL application_name = ${synchronousCommit}",
      },
    ],
  },
  {
    name: "A3: a store that promised a quorum goes on at a server without standbys",
    file: FAILOVER,
    test: "A3: a store that promised a quorum fails when the server that took over has no standby",
    patches: [
      {
        file: "src/store/postgres/openings.ts",
        from: 'if (this.#promised === "quorum" && durability !== "quorum") {',
        to: 'if (this.#promised === "none" && durability !== "quorum") {',
      },
    ],
  },
  {
    name: "A3: a commit is acknowledged for a quorum whose standbys were given up while it waited",
    file: FAILOVER,
    test: "A3: standbys that an operator gives up while a commit waits for them",
    patches: [
      {
        file: "src/store/postgres/group-carrier.ts",
        from: "const fate = fateOf(results, answered.hasWarning || isLess);",
        to: "const fate = fateOf(results, answered.hasWarning || (isLess && !isLess));",
      },
    ],
  },
  {
    name: "F1: a store whose receipt was tidied away while it slept can write nothing any more",
    file: FAULTS,
    test: "F1: a store that slept until another node tidied its receipt away gets another one",
    patches: [{ file: "src/store/postgres/failures.ts", from: "57P0|25006|22012", to: "57P0|25006" }],
  },
  {
    name: "F5: a role without rights is told of a bug",
    file: "test/store/postgres/opening.test.ts",
    test: "F5: a role that may not make Holdfast's tables, change or read them is refused, and what to grant is said",
    patches: [
      {
        file: "src/store/postgres/driver.ts",
        from: "if (sqlState(cause) !== NOT_ALLOWED) throw cause;",
        to: 'if (sqlState(cause) !== "") throw cause;',
      },
    ],
  },
];
