/** The store in a shared PostgreSQL. */
export { isPostgresAddress } from "./address.ts";
export type { PostgresOptions, PostgresStore } from "./postgres-store.ts";
export { openPostgresStore } from "./postgres-store.ts";
export type { StoreAdmin, StoreContent, StoreStatus } from "./admin.ts";
export { openPostgresAdmin } from "./admin.ts";
