/**
 * What every call of `StreamService` on one port shares.
 */
import type { Accept } from "../transport.ts";
import type { BodyBudget } from "./body-budget.ts";
import type { ConnectionTable } from "./connection-table.ts";
import type { ListenerTable } from "./listener-table.ts";

export interface CallContext {
  readonly accept: Accept;
  readonly connections: ConnectionTable;
  readonly listeners: ListenerTable;
  readonly bodies: BodyBudget;
  readonly onBug: (bug: unknown) => void;
}
