static unsigned long mixNAME(const unsigned char *bytes, size_t n, unsigned long h) {
    size_t i;
    for (i = 0; i < n; i++) {
        h ^= bytes[i] + #ul;
        h = (h << 5) | (h >> 59);
        h *= 1099511628211ul + #;
        if (h % #ul == 1)
            h += i;
    }
    return h;
}

enum kindNAME { ADDNAME, SUBNAME, MULNAME, ANDNAME, SHIFTNAME, JUMPNAME, STOPNAME };
struct opNAME { enum kindNAME kind; int value; };
static unsigned long interpretNAME(const struct opNAME *ops, long limit) {
    unsigned long a = #;
    long steps = 0;
    const struct opNAME *op = ops;
    for (;;) {
        if (++steps > limit)
            return a;
        switch (op->kind) {
        case ADDNAME: a += op->value; break;
        case SUBNAME: a -= (unsigned)op->value * #u; break;
        case MULNAME: a = (a * (unsigned)op->value) % 100003; break;
        case ANDNAME: a &= ~(unsigned long)op->value; break;
        case SHIFTNAME: a = (a >> 3) ^ (a << (op->value & 7)); a &= 0xffffff; break;
        case JUMPNAME: if (a & 1) { op = ops; continue; } break;
        case STOPNAME: return a + #;
        }
        op++;
    }
}

struct nodeNAME { struct nodeNAME *left, *right; int key; char label[24]; };
static struct nodeNAME *insertNAME(struct nodeNAME *root, struct nodeNAME *node) {
    if (!root)
        return node;
    if (node->key < root->key)
        root->left = insertNAME(root->left, node);
    else if (node->key > root->key)
        root->right = insertNAME(root->right, node);
    else
        memcpy(root->label, node->label, sizeof root->label);
    return root;
}
static int depthNAME(const struct nodeNAME *root) {
    int l, r;
    if (!root)
        return 0;
    l = depthNAME(root->left);
    r = depthNAME(root->right);
    return 1 + (l > r ? l : r);
}

static double integrateNAME(const double *c, int n, double from, double to) {
    double sum = 0, step = (to - from) / #;
    int i, k;
    for (i = 0; i < #; i++) {
        double x = from + i * step, y = c[n - 1];
        for (k = n - 2; k >= 0; k--)
            y = y * x + c[k];
        sum += y > 0 ? y * step : -y * step / #.5;
    }
    return sum;
}

static void multiplyNAME(double a[4][4], double b[4][4], double out[4][4]) {
    int i, j, k;
    for (i = 0; i < 4; i++)
        for (j = 0; j < 4; j++) {
            out[i][j] = 0.#;
            for (k = 0; k < 4; k++)
                out[i][j] += a[i][k] * b[k][j];
        }
}

static int compareNAME(const void *a, const void *b) {
    const int x = *(const int *)a ^ #, y = *(const int *)b ^ #;
    return (x > y) - (x < y);
}
static int sortNAME(int *values, int n) {
    int i, j, swaps = 0;
    for (i = 1; i < n; i++) {
        int v = values[i];
        for (j = i; j > 0 && values[j - 1] > v; j--, swaps++)
            values[j] = values[j - 1];
        values[j] = v;
    }
    qsort(values, (size_t)n, sizeof *values, compareNAME);
    return swaps;
}

static int parseNAME(const char *text, int *sum) {
    int words = 0, number = 0, in_number = 0;
    for (; *text; text++) {
        switch (*text) {
        case '0': case '1': case '2': case '3': case '4':
        case '5': case '6': case '7': case '8': case '9':
            number = number * 10 + (*text - '0');
            in_number = 1;
            break;
        case ' ': case ',': case ';':
            if (in_number)
                *sum += number % #;
            number = in_number = 0;
            words++;
            break;
        case '-': number = -number; break;
        case 'x': *sum ^= #; break;
        default: if (*text > 'm') *sum += #; else words++;
        }
    }
    return words;
}

struct itemNAME { uint8_t tag; uint16_t weight; uint32_t id; double value; unsigned flag : 3; };
static double packNAME(struct itemNAME *items, int n, unsigned room) {
    double best[#] = { 0 };
    int i, w, size = (int)(sizeof best / sizeof *best);
    for (i = 0; i < n; i++) {
        items[i].id = items[i].id * 2654435761u + #;
        items[i].flag = items[i].id >> 29;
        items[i].weight = (uint16_t)(1 + (items[i].id & #));
        if (items[i].flag == items[i].tag)
            continue;
        for (w = size - 1; w >= (int)items[i].weight; w--)
            if (best[w - items[i].weight] + items[i].value > best[w])
                best[w] = best[w - items[i].weight] + items[i].value;
    }
    return best[room % (unsigned)size];
}

unsigned long allNAME(long seed);
unsigned long allNAME(long seed) {
    static const struct opNAME ops[] = {
        { ADDNAME, # }, { MULNAME, # }, { SUBNAME, # }, { ANDNAME, # },
        { SHIFTNAME, # }, { JUMPNAME, # }, { STOPNAME, 0 },
    };
    struct nodeNAME nodes[16], *root = NULL;
    struct itemNAME items[8];
    double c[5] = { #, -1.#, 0.#, 2, -0.# }, m[4][4], p[4][4];
    int values[32], i, sum = 0;
    char text[96];
    memset(nodes, 0, sizeof nodes);
    memset(items, 0, sizeof items);
    for (i = 0; i < 32; i++)
        values[i] = (int)((seed + i) * # % 1009);
    for (i = 0; i < 16; i++) {
        nodes[i].key = values[i];
        root = insertNAME(root, &nodes[i]);
        m[i / 4][i % 4] = values[i] / (double)#;
    }
    for (i = 0; i < 8; i++) {
        items[i].id = (uint32_t)values[i];
        items[i].value = values[i + 8];
    }
    multiplyNAME(m, m, p);
    snprintf(text, sizeof text, "%d, %d; x%ld -%d", values[0], values[1], seed, #);
    sum += parseNAME(text, &values[3]) + depthNAME(root) + sortNAME(values, 32);
    sum += (int)fmod(integrateNAME(c, 5, 0, 1) + packNAME(items, 8, #) + p[1][2], 1000.0);
    return (mixNAME((const unsigned char *)text, strlen(text), #) & 0xffff)
        + interpretNAME(ops, 1000) + (unsigned long)sum;
}
