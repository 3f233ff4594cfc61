import type { ReactNode } from 'react';
import { type Right, useMay } from '../api/session.ts';

interface AllowedProps {
  readonly right: Right;
  readonly children: ReactNode;
}

/** Shows its content to callers with a right only. */
export function Allowed({ right, children }: AllowedProps) {
  return useMay()(right) ? children : null;
}
