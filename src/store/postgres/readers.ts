/**
 * Connections for reading, and for whatever may be carried out twice: a few, opened when they are needed.
 *
 * Each takes many questions at once; the one with the fewest under way is asked. A question that a lost connection took away is asked again, for as long as
 * the store waits for its database.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { type Address } from "./address.ts";
import { connect, type Connection, type Row, type Statement } from "./driver.ts";
import { meaningOf, unavailable } from "./failures.ts";

const CONNECTIONS_MAX = 4;
const PAUSE_MS = 100;

/**
 * A connection keeps its plans. One that was made while the newest partition of the log was empty would read that whole, until the server has counted its rows. Behind a pooler no plan is kept.
 */
export const BY_KEYS: Statement = { text: "SET enable_seqscan = off; SET enable_bitmapscan = off" };

interface Reader {
  readonly connection: Promise<Connection>;
  underWay: number;
}

export class Readers {
  readonly #address: Address;
  readonly #applicationName: string;
  readonly #patienceMs: number;
  readonly #readers = new Set<Reader>();
  #isClosed = false;

  constructor(address: Address, applicationName: string, patienceMs: number) {
    this.#address = address;
    this.#applicationName = applicationName;
    this.#patienceMs = patienceMs;
  }

  async ask(statement: Statement): Promise<readonly Row[]> {
    const untilMs = performance.now() + this.#patienceMs;
    for (;;) {
      const reader = this.#reader();
      reader.underWay++;
      try {
        const connection = await reader.connection;
        return (await connection.ask(statement)).rows;
      } catch (error) {
        if (error instanceof HoldfastError && error.code === "invalid_argument") throw error;
        const meaning = meaningOf(error);
        if (meaning === "lost") this.#remove(reader);
        const isOver = this.#isClosed || performance.now() > untilMs;
        if (isOver || (meaning !== "lost" && meaning !== "again")) {
          throw error instanceof HoldfastError ? error : unavailable("the database cannot be read", error);
        }
      } finally {
        reader.underWay--;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const readers = [...this.#readers];
    await Promise.all(
      readers.map(({ connection }) =>
        connection.then(
          (opened) => opened.end(),
          () => undefined,
        ),
      ),
    );
  }

  #reader(): Reader {
    const [freest] = [...this.#readers].toSorted((a, b) => a.underWay - b.underWay);
    if (freest !== undefined && (freest.underWay === 0 || this.#readers.size >= CONNECTIONS_MAX))
      return freest;
    const connection = this.#connect();
    const reader: Reader = { connection, underWay: 0 };
    this.#readers.add(reader);
    connection.then(
      ({ gone }) => void gone.then(() => this.#readers.delete(reader)),
      () => this.#readers.delete(reader),
    );
    return reader;
  }

  async #connect(): Promise<Connection> {
    const connection = await connect(this.#address, this.#applicationName);
    if (!connection.settings.isPooled) await connection.ask(BY_KEYS);
    return connection;
  }

  #remove(reader: Reader): void {
    this.#readers.delete(reader);
    reader.connection.then(
      (connection) => connection.cut(),
      () => undefined,
    );
  }
}
