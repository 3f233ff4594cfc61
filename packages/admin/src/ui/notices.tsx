import { Button, InlineNotification } from '@carbon/react';
import { ApiError } from '@sluice/contract/client';
import type { ReactNode } from 'react';
import { ServiceUnreachableError } from '../api/api.ts';
import { InertText, visibleText } from './inert-text.tsx';
import { routeTo, useRoute } from './route.ts';

interface ErrorNoticeProps {
  /** What failed: "Tools could not be loaded". */
  readonly title: string;
  readonly error: unknown;
  readonly onRetry?: () => void;
}

/** An error on a page or in a form: what failed, the message of the service, and what to do. */
export function ErrorNotice({ title, error, onRetry }: ErrorNoticeProps) {
  return (
    <div className="notice">
      <InlineNotification kind="error" lowContrast hideCloseButton title={visibleText(title)}>
        <InertText text={messageOf(error)} />
      </InlineNotification>
      {onRetry && (
        <Button kind="tertiary" size="sm" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Returns the message of an error with advice where the service gives none. */
export function messageOf(error: unknown): string {
  if (error instanceof ServiceUnreachableError) return error.message;
  if (error instanceof ApiError) {
    if (error.status === 401) return 'Your login has expired. Log in again.';
    if (error.code === undefined) return `A proxy in front of the service answered ${error.status}: ${error.message}`;
    return error.message;
  }
  return error instanceof Error ? error.message : String(error);
}

interface MissingNoticeProps {
  /** "forward" */
  readonly kind: string;
  /** What the address names. */
  readonly name: string;
  readonly onClose: () => void;
}

/** What a page shows when its address names something that does not exist. */
export function MissingNotice({ kind, name, onClose }: MissingNoticeProps) {
  return (
    <InlineNotification
      kind="warning"
      lowContrast
      title={visibleText(`There is no ${kind} ${name}`)}
      subtitle="It may have been deleted or renamed since the link was made."
      onClose={() => {
        onClose();
        return false;
      }}
    />
  );
}

interface EmptyStateProps {
  readonly title: string;
  readonly text: ReactNode;
  /** Button that leads to the first one. */
  readonly action: ReactNode;
}

/** What a list shows instead of rows, and how to get the first one. */
export function EmptyState({ title, text, action }: EmptyStateProps) {
  return (
    <div className="empty-state">
      <h2>{title}</h2>
      <p>{text}</p>
      {action}
    </div>
  );
}

/** Parameters of the address that are no filters. */
const KEPT = ['tab', 'by', 'sort'] as const;

/** What a list shows when the filters in the address select nothing. `filters`: "the search or the namespace". */
export function UnmatchedState({ filters = 'the search' }: { readonly filters?: string | undefined }) {
  const { path, query } = useRoute();
  const kept = KEPT.map((name) => [name, query.get(name) ?? undefined] as const);
  return (
    <EmptyState
      title="Nothing matches"
      text={`Change ${filters}.`}
      action={
        <Button kind="tertiary" size="md" href={routeTo(path, Object.fromEntries(kept))}>
          Clear the filters
        </Button>
      }
    />
  );
}
