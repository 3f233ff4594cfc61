import { blockInput } from '@sluice/contract';
import { type Client, unwrap } from '@sluice/contract/client';
import { type ReactNode, useState } from 'react';
import { useChange, useForwards } from '../api/queries.ts';
import { ChoiceField, TextInput } from './fields.tsx';
import { useForm } from './form.ts';
import { FormModal } from './modal.tsx';
import { useToasts } from './toasts.tsx';

/** What a block of a forward has before its name. */
const FORWARD = 'forward:';
/** Durations to choose from; others can be typed. */
const DURATIONS = ['30m', '1h', '8h', '1d', '7d'];

/** Returns the id of a block of this forward. */
export function forwardBlock(name: string): string {
  return FORWARD + name;
}

/** Whether the id of a block is that of a forward. */
export function isForward(id: string): boolean {
  return id.startsWith(FORWARD);
}

/** Ways to block and unblock, and the dialog that asks first. */
export interface Blocking {
  /** `id`: of a principal or key, or of {@link forwardBlock}. */
  readonly block: (id: string) => void;
  readonly unblock: (id: string) => void;
  readonly dialog: ReactNode;
}

/** Blocks principals, keys and forwards, and unblocks them, after a question. */
export function useBlocking(): Blocking {
  const [asked, setAsked] = useState<{ readonly id: string; readonly isEnd: boolean }>();
  const [actions] = useState(() => ({
    block: (id: string) => setAsked({ id, isEnd: false }),
    unblock: (id: string) => setAsked({ id, isEnd: true }),
  }));
  const Dialog = asked?.isEnd ? UnblockDialog : BlockDialog;
  return { ...actions, dialog: asked && <Dialog id={asked.id} onClose={() => setAsked(undefined)} /> };
}

interface BlockDialogProps {
  /** What is blocked; it can be typed if it is missing. */
  readonly id?: string;
  readonly onClose: () => void;
}

/** Asks what to block, for how long and why. */
export function BlockDialog({ id, onClose }: BlockDialogProps) {
  const form = useForm({ id: id ?? '', for: '', reason: '' }, blockInput, ({ for: duration, reason }) => ({
    for: duration.trim() || undefined,
    reason: reason.trim() || undefined,
  }));
  const { data: forwards = [] } = useForwards();
  const report = useReport();
  const block = useChange({
    changes: ['other'],
    run: async (client, { body, target }: { body: NonNullable<typeof form.body>; target: string }) =>
      report(`${target} is blocked`, client.PUT('/api/v1/blocks/{id}', { params: { path: { id: target } }, body })),
  });
  const target = form.draft.id.trim();
  return (
    <FormModal
      heading={id === undefined ? 'Block a principal, key or forward' : `Block ${id}?`}
      submit="Block"
      danger
      size="sm"
      body={target === '' ? undefined : form.body}
      onClose={onClose}
      onSubmit={(body) => block({ body, target })}
    >
      <p>
        {isForward(target)
          ? 'Clients do not see its tools, resources and prompts any more, and calls to it end.'
          : 'Every request gets 401. Sessions, streams, tasks and calls end, also at upstreams and models.'}
      </p>
      {id === undefined && (
        <ChoiceField
          id="block-id"
          label="Id"
          items={forwards.map(({ name }) => forwardBlock(name))}
          helperText="Such as corp/ann, keys/nightly-report or forward:crm"
          value={form.draft.id}
          onChange={(value) => form.set('id', value)}
        />
      )}
      <ChoiceField
        id="block-for"
        label="Duration"
        items={DURATIONS}
        helperText="Such as 30m, 1h or 7d. Without it, until it is unblocked"
        value={form.draft.for}
        onChange={(value) => form.set('for', value)}
        error={form.error('for')}
      />
      <TextInput
        id="block-reason"
        labelText="Reason"
        helperText="For other administrators"
        autoComplete="off"
        {...form.text('reason')}
      />
    </FormModal>
  );
}

/** Asks before somebody is let in again. */
function UnblockDialog({ id, onClose }: Required<BlockDialogProps>) {
  const report = useReport();
  const unblock = useChange<string>({
    changes: ['other'],
    run: (client, target) =>
      report(`${target} is unblocked`, client.DELETE('/api/v1/blocks/{id}', { params: { path: { id: target } } })),
  });
  return (
    <FormModal
      heading={`Unblock ${id}?`}
      submit="Unblock"
      danger
      size="sm"
      body={id}
      onClose={onClose}
      onSubmit={unblock}
    >
      <p>
        {isForward(id)
          ? 'Clients see its tools, resources and prompts again.'
          : 'Requests are accepted again. Sessions that were opened before do not continue.'}
      </p>
    </FormModal>
  );
}

type Change = ReturnType<Client['PUT'] | Client['DELETE']>;

/** Returns a function that waits for a change, and says what it did; replicas that may not have applied it are named. */
function useReport() {
  const toasts = useToasts();
  return async (title: string, change: Change): Promise<void> => {
    await unwrap(change);
    const { data } = await change;
    const unconfirmed = data && 'unconfirmed' in data ? String(data.unconfirmed) : undefined;
    if (unconfirmed === undefined) toasts.show({ kind: 'success', title });
    else toasts.show({ kind: 'warning', title, text: `Replicas that may not have applied it yet: ${unconfirmed}` });
  };
}
