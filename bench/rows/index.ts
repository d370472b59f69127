/**
 * All rows, in the order of the table.
 */
import type { Row } from "../harness/row.ts";
import { appends } from "./appends.ts";
import { behindRow } from "./behind.ts";
import { conversation } from "./conversation.ts";
import { delivery } from "./delivery.ts";
import { firstToken } from "./first-token.ts";
import { flatness } from "./flatness.ts";
import { gateway } from "./gateway.ts";
import { gatewayContinue } from "./gateway-continue.ts";
import { gatewayDatabase } from "./gateway-database.ts";
import { gatewayDoors } from "./gateway-doors.ts";
import { gatewayOver, gatewayOverLong } from "./gateway-over.ts";
import { gatewayParked } from "./gateway-parked.ts";
import { kill } from "./kill.ts";
import { latency } from "./latency.ts";
import { line } from "./line.ts";
import { memory } from "./memory.ts";
import { nodes } from "./nodes.ts";
import { nodesFull } from "./nodes-full.ts";
import { reconnect } from "./reconnect.ts";
import { resumableStream } from "./resumable-stream.ts";
import { storm5000 } from "./storm.ts";
import { toolTurn } from "./tool-turn.ts";
import { turnGrowth } from "./turn-growth.ts";

export const rows: readonly Row[] = [
  delivery,
  appends,
  nodes,
  nodesFull,
  resumableStream,
  latency,
  reconnect,
  flatness,
  memory,
  storm5000,
  firstToken,
  line,
  kill,
  behindRow,
  toolTurn,
  turnGrowth,
  conversation,
  gateway,
  gatewayContinue,
  gatewayParked,
  gatewayDatabase,
  gatewayOver,
  gatewayOverLong,
  gatewayDoors,
];
