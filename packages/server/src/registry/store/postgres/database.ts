import { readFile } from 'node:fs/promises';
import { ReconnectDelay } from '@sluice/protocol/timing';
import pg from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';
import { errorReason } from '../files.ts';
import { StoreError, type StoreLog, UnavailableStoreError } from '../store.ts';

/** How to reach PostgreSQL. */
export interface DatabaseSettings {
  /** `postgres://` URL with the options of libpq. May contain a password: never logged. */
  readonly url: string;
  /** URL for `LISTEN`, which a pooler between does not support; defaults to `url`. */
  readonly listenUrl?: string | undefined;
  /** File with the password. */
  readonly passwordFile?: string | undefined;
}

/** Options of {@link Database}. */
export interface DatabaseOptions extends DatabaseSettings {
  readonly log: StoreLog;
}

/** Connections for transactions, per process. */
const CONNECTIONS = 4;
/** An attempt that begins before PostgreSQL can be reached again delays the next one: replicas catch up within two seconds. */
const CONNECT_MS = 1_800;
/** Limit for the response to a statement: a partitioned network would delay it for a quarter of an hour. */
const RESPONSE_MS = 15_000;
/**
 * Limits within a transaction, in which the other replicas may wait for a lock: of a replica that was stopped in the middle,
 * PostgreSQL closes the connection.
 */
const TRANSACTION_LIMITS =
  "SET LOCAL statement_timeout = '12s'; SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'";

/** The channel of notifications. */
const CHANNEL = 'sluice';

/** One transaction, or a connection of its own. Statements are never named, so that a pooler may be in between. */
export interface Transaction {
  /** Runs one statement with parameters. `timeoutMs`: limit for the response, if not the usual one. */
  query<Row extends pg.QueryResultRow>(
    sql: string,
    parameters?: readonly unknown[],
    timeoutMs?: number,
  ): Promise<Row[]>;
}

/** A connection pool, and one connection that listens for notifications. Errors have no connection settings in them. */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #closing = new AbortController();
  #pool: pg.Pool | undefined;
  #listening: pg.Client | undefined;
  #listener: ((message: string) => void) | undefined;
  #connectTimer: NodeJS.Timeout | undefined;
  #isListening = false;
  /** Connections that have been used before: they may have been broken since. */
  readonly #used = new WeakSet<pg.PoolClient>();
  readonly #delay = new ReconnectDelay({ firstMs: 250, maxMs: 2_000 });

  constructor(options: DatabaseOptions) {
    this.#options = options;
  }

  /** Runs a statement that may be repeated, in a transaction of its own. */
  async query<Row extends pg.QueryResultRow>(
    sql: string,
    parameters: readonly unknown[] = [],
    timeoutMs = RESPONSE_MS,
  ): Promise<Row[]> {
    const query = { text: sql, values: [...parameters], query_timeout: timeoutMs };
    const { client, result } = await this.#connected((each) => each.query<Row>(query));
    client.release();
    return result.rows;
  }

  /**
   * Runs statements in a transaction, which `mode` describes, and commits it; `commit` may replace that, and must end the
   * transaction. Throws {@link StoreError}, or what `run` throws.
   */
  async transaction<T>(
    mode: string,
    run: (transaction: Transaction) => Promise<T>,
    commit: (client: Transaction) => Promise<unknown> = (client) => client.query('COMMIT'),
  ): Promise<T> {
    const { client } = await this.#connected((each) => each.query(`BEGIN ${mode}; ${TRANSACTION_LIMITS}`));
    const transaction: Transaction = {
      query: async (sql, parameters = [], timeoutMs = undefined) => {
        const timeout = timeoutMs !== undefined && { query_timeout: timeoutMs };
        try {
          return (await client.query({ text: sql, values: [...parameters], ...timeout })).rows;
        } catch (error) {
          throw failure(error);
        }
      },
    };
    try {
      const result = await run(transaction);
      await commit(transaction);
      client.release();
      return result;
    } catch (error) {
      // Also a connection whose state is not known.
      client.release(true);
      throw error;
    }
  }

  /** Takes a connection and runs a first statement on it, which is repeated if the connection was broken since it was used last. */
  async #connected<T>(
    run: (client: pg.PoolClient) => Promise<T>,
  ): Promise<{ readonly client: pg.PoolClient; readonly result: T }> {
    const pool = await this.#open();
    for (;;) {
      const client = await pool.connect().catch((error: unknown) => Promise.reject(failure(error)));
      const mayBeBroken = this.#used.has(client);
      this.#used.add(client);
      try {
        return { client, result: await run(client) };
      } catch (error) {
        client.release(true);
        if (!mayBeBroken || !isBroken(error)) throw failure(error);
      }
    }
  }

  /**
   * Calls `listener` with each notification, and with an empty one when it begins to receive them. Notifications are lost in a
   * pooler, and while the connection is broken.
   */
  listen(listener: (message: string) => void): void {
    this.#listener = listener;
    void this.#connectListener();
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#connectTimer);
    this.#listener = undefined;
    await Promise.all([this.#listening?.end().catch(() => undefined), this.#pool?.end().catch(() => undefined)]);
  }

  async #open(): Promise<pg.Pool> {
    if (this.#closing.signal.aborted) throw new StoreError('the database connection is closed');
    if (this.#pool) return this.#pool;
    const config = await this.#config(this.#options.url);
    if (this.#pool) return this.#pool;
    this.#pool = new pg.Pool({ ...config, max: CONNECTIONS });
    // A broken connection fails the next statement, or is replaced by then.
    const ignore = () => undefined;
    this.#pool.on('error', ignore);
    this.#pool.on('connect', (client) => client.on('error', ignore));
    return this.#pool;
  }

  async #config(url: string): Promise<pg.ClientConfig> {
    const { passwordFile } = this.#options;
    const password = passwordFile === undefined ? undefined : (await readFile(passwordFile, 'utf8')).trimEnd();
    return {
      // `sslmode` as libpq understands it.
      ...toClientConfig(parse(url, { useLibpqCompat: true })),
      ...(password !== undefined && { password }),
      application_name: 'sluice',
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: RESPONSE_MS,
      keepAlive: true,
    };
  }

  async #connectListener(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    let client: pg.Client | undefined;
    try {
      const opened = new pg.Client(await this.#config(this.#options.listenUrl ?? this.#options.url));
      client = opened;
      this.#listening = opened;
      opened.on('notification', ({ payload }) => this.#listener?.(payload ?? ''));
      opened.on('error', () => undefined);
      opened.once('end', () => this.#onListenerClosed(opened, 'the connection was closed'));
      await opened.connect();
      await opened.query(`LISTEN ${CHANNEL}`);
      this.#isListening = true;
      this.#delay.reset();
      this.#listener?.('');
    } catch (error) {
      this.#onListenerClosed(client, reasonOf(error));
    }
  }

  #onListenerClosed(client: pg.Client | undefined, reason: string): void {
    // A connection that failed ends later as well.
    if (this.#closing.signal.aborted || this.#listening !== client) return;
    this.#listening = undefined;
    client?.end().catch(() => undefined);
    if (this.#isListening) this.#options.log.warn('PostgreSQL notifications lost; polling once a second', { reason });
    this.#isListening = false;
    clearTimeout(this.#connectTimer);
    this.#connectTimer = setTimeout(() => void this.#connectListener(), this.#delay.next()).unref();
  }
}

/** SQLSTATE classes and codes after which the same statement may succeed: connections, resources, shutdown, conflicts. */
const TEMPORARY = /^(?:08|53|57|58|40|55P03|25P03|25P04)/;

/** Whether the connection has ended: neither the statement nor the time it took is the reason. */
function isBroken(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(?:08|57P)/.test(error.code ?? '');
  return error instanceof Error && error.message !== 'Query read timeout';
}

/** The error of a statement, without connection settings and values. */
function failure(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = `PostgreSQL: ${reasonOf(error)}`;
  const isRejected = error instanceof pg.DatabaseError && !TEMPORARY.test(error.code ?? '08');
  return isRejected ? new StoreError(message, { cause: error }) : new UnavailableStoreError(message, { cause: error });
}

/** The reason of a failed connection or statement, with its SQLSTATE. */
function reasonOf(error: unknown): string {
  if (error instanceof pg.DatabaseError) return `${error.message} (${error.code})`;
  return errorReason(error);
}
