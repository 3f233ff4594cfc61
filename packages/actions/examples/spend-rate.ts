import { getHistory } from 'service:evaluator/conversation';
import { pass, setMetadata } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { member, parseJsonOutput } from './json-output.ts';

/** Arguments that contain the amount of a call. */
const AMOUNT_NAMES = ['amount', 'price', 'total', 'budget'];

/** Amounts of money in text: `$12.50`, `1,200 EUR`, `€ 40`. */
const MONEY = /(?:[$€£] ?(\d[\d,]*(?:\.\d+)?))|(?:\b(\d[\d,]*(?:\.\d+)?) ?(?:EUR|USD|GBP|euros?|dollars?|pounds?)\b)/gi;

/** Larger numbers are ignored as mistakes. */
const MAX_AMOUNT = 1e12;

/**
 * Computes how fast an agent spends money and sets the metadata `spend.rate` for later filters, on calls with an amount
 * (`amount`, `price`, `total` or `budget`):
 *
 *     amount=120.50 spent=300.00 turns=4 rate=105.13 by=llm
 *
 * `amount` is the amount of this call, `spent` the amount spent earlier in the conversation, `turns` the number of agent
 * messages including this call, and `rate` the amount per turn. Currencies are not converted.
 *
 * Expected LLM output: `{"spent": [number, …]}` with the amounts spent in the conversation. For other output, the amounts
 * in the agent's messages are used (`by=history`), or none without a conversation.
 */
export function evaluate(ctx: EvaluationContext): void {
  const amount = amountOf(ctx.arguments);
  if (amount === undefined) return pass();
  const history = ctx.conversationId === undefined ? [] : getHistory(ctx.conversationId);
  const messages = history.filter(({ role }) => role === 'assistant').map(({ content }) => content);
  const reported = collectAmounts(member(parseJsonOutput(ctx.llmResult), 'spent'));
  const spent = sum(reported ?? messages.flatMap(moneyIn));
  const turns = messages.length + 1;
  const rate = (spent + amount) / turns;
  const by = reported === undefined ? 'history' : 'llm';
  setMetadata(
    'spend.rate',
    `amount=${amount.toFixed(2)} spent=${spent.toFixed(2)} turns=${turns} rate=${rate.toFixed(2)} by=${by}`,
  );
}

/** Returns the first amount in the arguments. */
function amountOf(pairs: EvaluationContext['arguments']): number | undefined {
  for (const name of AMOUNT_NAMES) {
    const value = pairs.find(([argument]) => argument.toLowerCase() === name)?.[1];
    // Agents send numbers also as strings.
    const number = value === undefined || value.trim() === '' ? Number.NaN : Number(value);
    if (isAmount(number)) return number;
  }
  return undefined;
}

/** Returns the value if it is a list of amounts. */
function collectAmounts(value: unknown): number[] | undefined {
  return Array.isArray(value) && value.every(isAmount) ? value : undefined;
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MAX_AMOUNT;
}

function moneyIn(text: string): number[] {
  return [...text.matchAll(MONEY)]
    .map(([, before, behind]) => Number((before ?? behind ?? '').replaceAll(',', '')))
    .filter(isAmount);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
