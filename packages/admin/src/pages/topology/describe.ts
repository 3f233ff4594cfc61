import type { Counts } from '../../api/traffic.ts';
import type { NodeKind } from './topology-model.ts';

/** Kinds of nodes as they are shown. */
export const KINDS: Readonly<Record<NodeKind, string>> = {
  agent: 'Agent',
  namespace: 'Namespace',
  forward: 'Forward',
  service: 'Service',
};

const NUMBER = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

/** Formats a number per minute. */
export function formatRate(perMinute: number): string {
  return NUMBER.format(perMinute);
}

/** `12/min, 3 errors, 1 blocked`; empty without calls. */
export function describeCalls({ calls, errors, blocked }: Counts): string {
  if (calls === 0) return '';
  const failed = errors === 0 ? '' : `, ${formatRate(errors)} ${formatRate(errors) === '1' ? 'error' : 'errors'}`;
  return `${formatRate(calls)}/min${failed}${blocked === 0 ? '' : `, ${formatRate(blocked)} blocked`}`;
}
