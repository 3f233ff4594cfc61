import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  completable,
  createMcpHandler,
  fromJsonSchema,
  type JsonSchemaType,
  McpServer,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { listen } from '../../test/fixtures/http-server.ts';

/** A tool: its arguments as JSON Schema properties, and what it answers. */
interface SampleTool {
  readonly name: string;
  readonly description: string;
  readonly properties?: Readonly<Record<string, JsonSchemaType>>;
  readonly required?: readonly string[];
  readonly isReadOnly?: boolean;
  /** Longest duration, in milliseconds. */
  readonly ms: number;
  readonly answer: string;
}

/** An MCP server with a subject of its own. */
interface SampleServer {
  readonly name: string;
  readonly title: string;
  readonly version: string;
  readonly instructions: string;
  readonly tools: readonly SampleTool[];
  readonly register?: (server: McpServer) => void;
}

const TEXT = { type: 'string' } as const;
const text = (description: string): JsonSchemaType => ({ type: 'string', description });

const LEDGER: SampleServer = {
  name: 'ledger',
  title: 'General ledger',
  version: '4.2.0',
  instructions: 'Accounts, balances and transfers. Amounts are in the currency of the account.',
  tools: [
    {
      name: 'list_accounts',
      description: 'List the accounts with their currency and owner department',
      isReadOnly: true,
      ms: 40,
      answer: '14 accounts: 1000 Cash EUR, 1200 Receivables EUR, 1600 Payables EUR, …',
    },
    {
      name: 'get_balance',
      description: 'Get the balance of an account at the end of a day',
      properties: { account: text('Account number, such as 1200'), day: { ...TEXT, format: 'date' } },
      required: ['account'],
      isReadOnly: true,
      ms: 60,
      answer: 'Account 1200: 48,210.55 EUR',
    },
    {
      name: 'search_transactions',
      description: 'Search transactions by text, period and amount',
      properties: {
        query: text('Words of the posting text'),
        from: { ...TEXT, format: 'date' },
        to: { ...TEXT, format: 'date' },
        minimum: { type: 'number', minimum: 0, description: 'Smallest amount' },
      },
      required: ['query'],
      isReadOnly: true,
      ms: 220,
      answer: '3 transactions: invoice 2291 (1,204.00 EUR), invoice 2304 (89.90 EUR), credit note 118 (−40.00 EUR)',
    },
    {
      name: 'transfer',
      description: 'Transfer an amount from one account to another',
      properties: {
        from: text('Account number'),
        to: text('Account number'),
        amount: { type: 'number', exclusiveMinimum: 0, description: 'In the currency of the account' },
        reference: text('Posting text'),
      },
      required: ['from', 'to', 'amount'],
      ms: 150,
      answer: 'Posted as transaction 88121',
    },
  ],
  register(server) {
    server.registerResource(
      'chart-of-accounts',
      'ledger://accounts',
      { description: 'All accounts with number, title and type', mimeType: 'text/csv' },
      (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/csv', text: 'number,title,type\n1000,Cash,asset\n' }] }),
    );
    server.registerResource(
      'statement',
      new ResourceTemplate('ledger://accounts/{account}/statements/{month}', {
        list: undefined,
        complete: { account: (value) => ['1000', '1200', '1600'].filter((account) => account.startsWith(value)) },
      }),
      { description: 'Statement of an account for a month', mimeType: 'text/plain' },
      (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'Opening balance 12,004.10 EUR' }] }),
    );
    server.registerPrompt(
      'monthly-report',
      {
        description: 'Summarize the postings of a month for the management',
        argsSchema: z.object({
          month: z.string().describe('Such as 2026-10'),
          currency: completable(z.string().describe('Currency of the report'), (value) =>
            ['CHF', 'EUR', 'USD'].filter((currency) => currency.startsWith(value)),
          ),
        }),
      },
      ({ month, currency }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Summarize ${month} in ${currency}.` } }],
      }),
    );
  },
};

const TICKETS: SampleServer = {
  name: 'tickets',
  title: 'Ticket system',
  version: '2.7.1',
  instructions: 'Tickets of the service desk. Search before you create one.',
  tools: [
    {
      name: 'search',
      description: 'Search tickets by words, queue and state',
      properties: { query: text('Words'), queue: text('Queue'), state: { type: 'string', enum: ['open', 'closed'] } },
      required: ['query'],
      isReadOnly: true,
      ms: 180,
      answer: '2 tickets: 5102 Label printer offline (open), 5077 Scanner loses connection (closed)',
    },
    {
      name: 'get_ticket',
      description: 'Get a ticket with its history',
      properties: { id: { type: 'integer', description: 'Ticket number' } },
      required: ['id'],
      isReadOnly: true,
      ms: 45,
      answer: 'Ticket 5102: label printer at dock 3 offline since 07:40, queue "site", priority 2',
    },
    {
      name: 'create_ticket',
      description: 'Create a ticket in a queue',
      properties: {
        title: text('One line'),
        body: text('What happens, since when, and who is affected'),
        queue: text('Queue'),
      },
      required: ['title', 'body'],
      ms: 90,
      answer: 'Created ticket 5109',
    },
    {
      name: 'add_comment',
      description: 'Add a comment to a ticket',
      properties: { id: { type: 'integer' }, body: text('Comment') },
      required: ['id', 'body'],
      ms: 70,
      answer: 'Comment added to ticket 5102',
    },
  ],
  register(server) {
    server.registerResource(
      'queues',
      'tickets://queues',
      { description: 'Queues with the number of open tickets', mimeType: 'application/json' },
      (uri) => ({ contents: [{ uri: uri.href, mimeType: 'application/json', text: '{"site":4,"network":1}' }] }),
    );
    server.registerPrompt(
      'handover',
      {
        description: 'Hand the open tickets of a queue over to the next shift',
        argsSchema: z.object({ queue: z.string() }),
      },
      ({ queue }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `List the open tickets of ${queue}.` } }],
      }),
    );
  },
};

const WAREHOUSE: SampleServer = {
  name: 'warehouse',
  title: 'Warehouse',
  version: '1.12.0',
  instructions: 'Stock and shipments of the central warehouse.',
  tools: [
    {
      name: 'search',
      description: 'Search articles by name or number',
      properties: { query: text('Name or number') },
      required: ['query'],
      isReadOnly: true,
      ms: 35,
      answer: '1 article: 7734 thermal labels 100 × 150 mm',
    },
    {
      name: 'stock_level',
      description: 'Get the stock of an article at each location',
      properties: { article: text('Article number') },
      required: ['article'],
      isReadOnly: true,
      ms: 30,
      answer: 'Article 7734: 412 at dock 3, 96 at dock 5',
    },
    {
      name: 'reserve',
      description: 'Reserve articles for an order',
      properties: { article: text('Article number'), quantity: { type: 'integer', minimum: 1 }, order: text('Order') },
      required: ['article', 'quantity', 'order'],
      ms: 80,
      answer: 'Reserved 20 of article 7734 for order 90113',
    },
  ],
};

/** The servers by name. */
export const SAMPLE_SERVERS = { ledger: LEDGER, tickets: TICKETS, warehouse: WAREHOUSE } as const;

/** Every this many calls one fails, as in real life. */
const ERROR_EVERY = 37;
let calls = 0;

function build({ name, title, version, instructions, tools, register }: SampleServer): McpServer {
  const server = new McpServer({ name, title, version }, { instructions });
  for (const { name: tool, description, properties = {}, required = [], isReadOnly, ms, answer } of tools) {
    const inputSchema = fromJsonSchema({ type: 'object', properties: { ...properties }, required: [...required] });
    const annotations = { readOnlyHint: isReadOnly === true };
    server.registerTool(tool, { description, inputSchema, annotations }, async () => {
      const isError = ++calls % ERROR_EVERY === 0;
      await delay(ms * (0.3 + Math.random() ** 3));
      return { content: [{ type: 'text', text: isError ? 'the database did not answer in time' : answer }], isError };
    });
  }
  register?.(server);
  return server;
}

/** Starts a server; returns its URL and how to stop it. */
export async function startSampleServer(sample: SampleServer): Promise<{ url: string; close: () => Promise<void> }> {
  const handler = createMcpHandler(() => build(sample));
  const http = createServer(toNodeHandler(handler));
  const port = await listen(http, 0);
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close: async () => {
      http.close().closeAllConnections();
      await handler.close();
    },
  };
}
