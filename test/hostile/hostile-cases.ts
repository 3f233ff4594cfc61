import type { HostileCase } from './hostile-case.ts';
import { tableCases } from './table-cases.ts';

/** All cases, in the order of the report. */
export function hostileCases(): HostileCase[] {
  return tableCases();
}
