import type { SettingsOf } from '../../config/pipeline/filter-settings.ts';
import type { Filter } from '../chain.ts';

/** A fixed answer, sent exactly as configured; nothing behind it is reached (decisions 1.4). */
export function staticResponse({ status, headers, body }: SettingsOf<'static_response'>): Filter {
  const outcome = {
    kind: 'plain',
    status,
    headers: headers.flatMap(({ name, value }) => [name, value]),
    body,
  } as const;
  return () => outcome;
}
