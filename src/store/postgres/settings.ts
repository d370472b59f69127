/**
 * What a database must be set to before anything is promised on it, and what a resolved commit then survives.
 *
 * A server that is set to forget (`fsync = off`) answers `COMMIT` like any other, so this is looked at on every connection that
 * writes. Each refusal says what to set (A3, F5).
 */
import type { Durability } from "../../protocol/frames.ts";

/** As the database tells them. */
export interface Settings {
  readonly versionNumber: number;
  readonly encoding: string;
  readonly isReplica: boolean;
  readonly isReadOnly: boolean;
  /** By its settings; else a transaction only reads because it began on a replica. */
  readonly isReadOnlyByDefault: boolean;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  readonly synchronousStandbys: string;
  /** The process that the server named when the connection began, and the one that answers. */
  readonly greetedBy: number | undefined;
  readonly answeredBy: number;
}

type SynchronousCommit = "on" | "remote_apply";

export interface Usable {
  readonly kind: "usable";
  readonly durability: Durability;
  /** Set in each transaction, so that nothing between us and the server lowers it. */
  readonly synchronousCommit: SynchronousCommit;
  /** A pooler stands between: a connection keeps nothing from one transaction to the next. */
  readonly isPooled: boolean;
}

interface Unusable {
  readonly kind: "unusable";
  /** Whether another host of the address may be better. */
  readonly isElsewhere: boolean;
  readonly why: string;
}

const VERSION_MIN = 14;

export function judgeSettings(settings: Settings): Usable | Unusable {
  const unusable = (why: string, isElsewhere = false): Unusable => ({ kind: "unusable", isElsewhere, why });
  const version = Math.floor(settings.versionNumber / 10_000);
  if (version < VERSION_MIN) {
    return unusable(`PostgreSQL ${version} is too old; Holdfast needs ${VERSION_MIN} or later`);
  }
  if (settings.isReplica) {
    return unusable("this server is a replica, which takes no writes; name the primary in the address", true);
  }
  if (settings.isReadOnlyByDefault) {
    return unusable("transactions are read-only here; set default_transaction_read_only = off for this role");
  }
  // Its recovery ended between the beginning of the transaction and the look at it.
  if (settings.isReadOnly) return unusable("this server is just being promoted to a primary", true);
  if (settings.encoding !== "UTF8") {
    return unusable(
      `the database's encoding is ${settings.encoding}; make one with CREATE DATABASE ... ENCODING 'UTF8'`,
    );
  }
  if (settings.fsync !== "on") {
    return unusable("fsync is off, so a power cut would lose what was acknowledged; set fsync = on");
  }
  if (settings.fullPageWrites !== "on") {
    return unusable(
      "full_page_writes is off, so a power cut could damage the database; set full_page_writes = on",
    );
  }
  const { synchronousCommit } = settings;
  if (synchronousCommit !== "on" && synchronousCommit !== "remote_apply") {
    return unusable(
      `synchronous_commit is ${synchronousCommit}, so a commit would be confirmed before it is safe; set synchronous_commit = on for this role or server`,
    );
  }
  return {
    kind: "usable",
    durability: settings.synchronousStandbys.trim() === "" ? "fsync" : "quorum",
    synchronousCommit,
    isPooled: settings.greetedBy !== settings.answeredBy,
  };
}
