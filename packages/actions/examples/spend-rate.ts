import { getHistory } from 'service:evaluator/conversation';
import { pass, setMetadata } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { jsonAnswer, member } from './json-answer.ts';

/** The arguments in which tools are told what is to be spent. */
const AMOUNT_NAMES = ['amount', 'price', 'total', 'budget'];

/** What people write of money: `$12.50`, `1,200 EUR`, `€ 40`. */
const MONEY = /(?:[$€£] ?(\d[\d,]*(?:\.\d+)?))|(?:\b(\d[\d,]*(?:\.\d+)?) ?(?:EUR|USD|GBP|euros?|dollars?|pounds?)\b)/gi;

/** Beyond it a number is a mistake. */
const MOST = 1e12;

/**
 * How fast an agent spends, for the filters behind this one: metadata `spend.rate` of calls that have an amount
 * (`amount`, `price`, `total` or `budget`), such as
 *
 *     amount=120.50 spent=300.00 turns=4 rate=105.13 by=llm
 *
 * `amount` is what this call would spend, `spent` what the conversation has spent before, `turns` how many messages of
 * the agent there were, with this call, and `rate` what it spends per turn. Other calls pass without it. Currencies are
 * not converted.
 *
 * The LLM answers `{"spent": [number, …]}` with the amounts that were spent in the conversation. When it answers
 * something else, the amounts that stand in the agent's own messages are taken (`by=history`); without a conversation
 * there are none.
 */
export function evaluate(ctx: EvaluationContext): void {
  const amount = amountOf(ctx.arguments);
  if (amount === undefined) return pass();
  const history = ctx.conversationId === undefined ? [] : getHistory(ctx.conversationId);
  const said = history.filter(({ role }) => role === 'assistant').map(({ content }) => content);
  const counted = amounts(member(jsonAnswer(ctx.llmResult), 'spent'));
  const spent = sum(counted ?? said.flatMap(moneyIn));
  const turns = said.length + 1;
  const rate = (spent + amount) / turns;
  const by = counted === undefined ? 'history' : 'llm';
  setMetadata(
    'spend.rate',
    `amount=${amount.toFixed(2)} spent=${spent.toFixed(2)} turns=${turns} rate=${rate.toFixed(2)} by=${by}`,
  );
}

/** The first of the amounts that the call names. */
function amountOf(pairs: EvaluationContext['arguments']): number | undefined {
  for (const name of AMOUNT_NAMES) {
    const value = pairs.find(([given]) => given.toLowerCase() === name)?.[1];
    // Numbers come as JSON, and agents write them as strings too.
    const number = value === undefined || value.trim() === '' ? Number.NaN : Number(value);
    if (isAmount(number)) return number;
  }
  return undefined;
}

/** A list of amounts; undefined when it is anything else. */
function amounts(value: unknown): number[] | undefined {
  return Array.isArray(value) && value.every(isAmount) ? value : undefined;
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MOST;
}

function moneyIn(text: string): number[] {
  return [...text.matchAll(MONEY)]
    .map(([, before, behind]) => Number((before ?? behind ?? '').replaceAll(',', '')))
    .filter(isAmount);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
