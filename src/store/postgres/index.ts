/** The store in a shared PostgreSQL. */
export { isPostgresAddress } from "./address.ts";
export type { PostgresOptions, PostgresStore } from "./postgres-store.ts";
export { openPostgresStore } from "./postgres-store.ts";
