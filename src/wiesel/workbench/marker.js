// A text whose words can be marked with labels, by pointer or by keyboard. It keeps the marks in the
// browser, so that no key waits for the server, and sends them when they change and when they are
// saved. Words and labels are data: they are only ever shown as text.
export default {
  template: `
    <div class="marker">
      <div ref="text" class="w-text marker-text" dir="auto" role="application" tabindex="0"
        aria-label="Text to mark: arrows go to words, Shift extends, number keys mark"
        @pointerdown="down" @pointermove="move" @pointerup="up" @pointercancel="up">
        <template v-for="(run, place) in runs" :key="place">
          <span v-if="run.label === null"><template v-for="part in run.parts"
            :key="part.index"><span v-if="part.word" class="marker-word" :data-word="part.index"
            :class="{ 'marker-chosen': chosen(part.index) }">{{ part.text }}</span><span v-else
            :class="{ 'marker-chosen': between(part.index) }">{{ part.text }}</span></template></span>
          <mark v-else class="marker-span" :style="{ background: tint(run.label), borderColor:
            color(run.label) }"><template v-for="part in run.parts" :key="part.index"><span
            v-if="part.word" class="marker-word" :data-word="part.index"
            :class="{ 'marker-chosen': chosen(part.index) }">{{ part.text }}</span><span v-else
            :class="{ 'marker-chosen': between(part.index) }">{{ part.text }}</span></template><span
            class="marker-label" :style="{ background: color(run.label) }">{{ run.label }}</span>
          </mark>
        </template>
      </div>
      <div class="w-row marker-buttons">
        <button v-for="(label, number) in labels" :key="label.name" type="button"
          class="marker-button" :style="{ background: label.color }" @click="mark(label.name)">
          {{ label.name }}<span v-if="number < 9" class="w-key">{{ number + 1 }}</span>
        </button>
        <button type="button" class="marker-button marker-plain" @click="remove">
          remove<span class="w-key">\u232b</span>
        </button>
        <button v-if="proposal.length" type="button" class="marker-button marker-plain"
          @click="propose">
          take {{ proposal.length }} proposed<span class="w-key">P</span>
        </button>
        <button type="button" class="marker-button marker-plain marker-save" @click="save">
          {{ marks.length ? "Save " + marks.length + (marks.length === 1 ? " span" : " spans")
            : "Save: no span" }}<span class="w-key">Enter</span>
        </button>
      </div>
      <div class="w-faint marker-state" role="status" aria-live="polite">{{ state }}</div>
    </div>
  `,
  props: { pieces: Array, labels: Array, given: Array, proposal: Array },
  emits: ["save", "changed"],
  data() {
    return {
      marks: this.given.map((span) => [...span]),
      before: [],
      cursor: 0,
      anchor: 0,
      dragging: false,
      moved: false,
      saved: false,
    };
  },
  computed: {
    n() {
      return (this.pieces.length - 1) / 2;
    },
    first() {
      return Math.min(this.cursor, this.anchor);
    },
    last() {
      return Math.max(this.cursor, this.anchor);
    },
    // The text as runs of words with the same mark, or with none.
    runs() {
      const found = [];
      let word = 0;
      const plain = (until) => {
        const parts = [];
        for (; word < until; word++) parts.push(this.gap(word), this.word(word));
        if (parts.length) found.push({ label: null, parts });
      };
      for (const [first, last, label] of this.marks) {
        plain(first);
        found.push({ label: null, parts: [this.gap(first)] });
        const parts = [];
        for (; word < last; word++) {
          if (word > first) parts.push(this.gap(word));
          parts.push(this.word(word));
        }
        found.push({ label, parts });
      }
      plain(this.n);
      found.push({ label: null, parts: [this.gap(this.n)] });
      return found;
    },
    state() {
      if (!this.n) return "There are no words in this text.";
      const words = [];
      for (let k = this.first; k <= this.last && words.length < 12; k++)
        words.push(this.pieces[2 * k + 1]);
      const mark = this.marks.find(([first, last]) => first <= this.cursor && this.cursor < last);
      return `Chosen: ${words.join(" ")}${mark ? ` (${mark[2]})` : ""}`;
    },
  },
  mounted() {
    window.addEventListener("keydown", this.key);
  },
  unmounted() {
    window.removeEventListener("keydown", this.key);
  },
  methods: {
    word(index) {
      return { index, word: true, text: this.pieces[2 * index + 1] };
    },
    gap(index) {
      return { index: -1 - index, word: false, text: this.pieces[2 * index] };
    },
    color(label) {
      const found = this.labels.find((each) => each.name === label);
      return found ? found.color : "#6b7280";
    },
    tint(label) {
      return `color-mix(in srgb, ${this.color(label)} 28%, transparent)`;
    },
    chosen(word) {
      return this.first <= word && word <= this.last;
    },
    between(gap) {
      const word = -1 - gap;
      return this.first < word && word <= this.last;
    },
    under(event) {
      const found = document.elementFromPoint(event.clientX, event.clientY);
      const word = found && found.closest(".marker-word");
      return word && this.$refs.text.contains(word) ? Number(word.dataset.word) : null;
    },
    down(event) {
      const word = this.under(event);
      if (word === null || event.button > 0) return;
      this.dragging = true;
      this.moved = false;
      this.cursor = word;
      if (!event.shiftKey) this.anchor = word;
    },
    move(event) {
      if (!this.dragging) return;
      const word = this.under(event);
      if (word === null || word === this.cursor) return;
      this.moved = true;
      this.cursor = word;
    },
    up(event) {
      if (!this.dragging) return;
      this.dragging = false;
      // A click on a span, without dragging, chooses all of it.
      if (!this.moved && !event.shiftKey) this.choose_span();
      const selection = window.getSelection();
      if (selection) selection.removeAllRanges();
    },
    choose_span() {
      const mark = this.marks.find(([first, last]) => first <= this.cursor && this.cursor < last);
      if (mark) {
        this.anchor = mark[0];
        this.cursor = mark[1] - 1;
      }
    },
    change(marks) {
      this.before.push(this.marks);
      this.marks = marks.sort((one, two) => one[0] - two[0]);
      this.$emit("changed", this.marks);
    },
    apart() {
      return this.marks.filter(([first, last]) => last <= this.first || first > this.last);
    },
    mark(label) {
      if (!this.n) return;
      const end = this.last;
      this.change([...this.apart(), [this.first, end + 1, label]]);
      this.anchor = this.cursor = Math.min(end + 1, this.n - 1);
      this.show();
    },
    remove() {
      const kept = this.apart();
      if (kept.length < this.marks.length) this.change(kept);
    },
    propose() {
      this.change(this.proposal.map((span) => [...span]));
    },
    save() {
      if (this.saved) return;
      this.saved = true;
      this.$emit("save", this.marks);
      // If it could not be saved, the row stays, and it can be tried again.
      setTimeout(() => (this.saved = false), 1500);
    },
    show() {
      this.$nextTick(() => {
        const word = this.at(this.cursor);
        if (word) word.scrollIntoView({ block: "nearest" });
      });
    },
    at(word) {
      return this.$refs.text.querySelector(`[data-word="${word}"]`);
    },
    go(word, extends_) {
      this.cursor = Math.max(0, Math.min(this.n - 1, word));
      if (!extends_) this.anchor = this.cursor;
      this.show();
    },
    // The word above or below, as near as possible to the left edge of this one.
    line(step) {
      const here = this.at(this.cursor);
      if (!here) return this.cursor;
      const own = here.getClientRects()[0];
      let best = this.cursor;
      let nearest = Infinity;
      for (const word of this.$refs.text.querySelectorAll(".marker-word")) {
        const other = word.getClientRects()[0];
        const down = (other.top - own.top) * step;
        if (down < own.height / 2) continue;
        const distance = 1000 * down + Math.abs(other.left - own.left);
        if (distance < nearest) {
          nearest = distance;
          best = Number(word.dataset.word);
        }
      }
      return best;
    },
    key(event) {
      const into = event.target;
      const typing = into && into.closest && into.closest("input, select, textarea, .q-dialog");
      if (typing || !this.$el.isConnected || !this.$el.offsetParent) return;
      const undoes = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z";
      if (undoes && this.before.length) {
        this.marks = this.before.pop();
        this.$emit("changed", this.marks);
      } else if (event.ctrlKey || event.metaKey || event.altKey) {
        return;
      } else if (event.key === "ArrowRight") this.go(this.cursor + 1, event.shiftKey);
      else if (event.key === "ArrowLeft") this.go(this.cursor - 1, event.shiftKey);
      else if (event.key === "ArrowDown") this.go(this.line(1), event.shiftKey);
      else if (event.key === "ArrowUp") this.go(this.line(-1), event.shiftKey);
      else if (event.key === "Home") this.go(0, event.shiftKey);
      else if (event.key === "End") this.go(this.n - 1, event.shiftKey);
      else if (event.key === "Backspace" || event.key === "Delete") this.remove();
      else if (event.key === "p" || event.key === "P") this.propose();
      else if (event.code.startsWith("Digit") || event.code.startsWith("Numpad")) {
        // With Shift, a digit key gives another sign.
        const label = this.labels[Number(event.code.slice(-1)) - 1];
        if (!label) return;
        this.mark(label.name);
      } else if (event.key === "Enter" && !(into.closest && into.closest("button, a"))) this.save();
      else return;
      event.preventDefault();
    },
  },
};
