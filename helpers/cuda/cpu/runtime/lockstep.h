// Which accesses a warp's lanes make together: the same access in the same round of each loop.
//
// Threads run one by one. Each round of each loop is a node of a tree that the lanes of a warp
// share: the first lane to come there makes it, the others find it. A lane that leaves a loop early
// goes on in the node around it, where the others arrive later; so lanes that parted meet again.
#pragma once
#include "costs.h"
#include "runtime.h"

#include <deque>

template <typename Instruction> struct Lockstep {
    struct Request { Instruction *instruction; Request *next; uint32_t number; Group group; };
    struct Node {
        Node *around, *next;          // the loop's surroundings, its next round
        Node *inside, *beside;        // first round of the first loop in it; of the next such loop
        Request *first, *last;
        uintptr_t site;               // of the loop: an address in the code
        uint32_t entered;             // by these lanes
    };
    struct Lane { Node *node; Request *at; };

    std::deque<Node> nodes;
    std::deque<Request> requests;
    std::vector<Addresses> scattered;
    size_t nodes_used, requests_used;
    Lane lanes[MAX_THREADS];

    void begin(unsigned warps) {
        nodes_used = requests_used = 0;
        scattered.clear();
        for (unsigned w = 0; w < warps; w++) {
            Node *root = new_node({});
            for (unsigned lane = 0; lane < 32; lane++) lanes[32 * w + lane] = {root, nullptr};
        }
    }

    // The request of the running thread's next access: the first that this lane is not part of.
    Request &request(unsigned thread, Instruction *instruction) {
        Lane &lane = lanes[thread];
        Node *node = lane.node;
        auto fits = [&](Request *r) {
            return r->instruction == instruction && !(r->group.mask >> thread % 32 & 1);
        };
        Request *r = lane.at ? lane.at->next : node->first;  // nearly always the next one
        if (!r || !fits(r)) {
            r = node->first;
            while (r && !fits(r)) r = r->next;
        }
        if (!r) {
            if (requests_used == requests.size()) requests.emplace_back();
            r = &requests[requests_used++];
            *r = {instruction, nullptr, 0, {}};
            (node->last ? node->last->next : node->first) = r;
            node->last = r;
        }
        return *(lane.at = r);
    }

    void enter(unsigned thread, uintptr_t site) {
        Lane &lane = lanes[thread];
        Node **place = &lane.node->inside;
        uint32_t bit = 1u << thread % 32;
        while (*place && ((*place)->site != site || (*place)->entered & bit))
            place = &(*place)->beside;
        if (!*place) *place = new_node({lane.node, nullptr, nullptr, nullptr, nullptr, nullptr, site, 0});
        (*place)->entered |= bit;
        lane = {*place, nullptr};
    }

    void next(unsigned thread) {
        Lane &lane = lanes[thread];
        if (!lane.node->next) lane.node->next = new_node({lane.node->around});
        lane = {lane.node->next, nullptr};
    }

    void leave(unsigned thread) { lanes[thread] = {lanes[thread].node->around, nullptr}; }

    template <typename Use> void each(Use use) {
        for (size_t r = 0; r < requests_used; r++) use(*requests[r].instruction, requests[r].group);
    }

  private:
    Node *new_node(const Node &node) {
        if (nodes_used == nodes.size()) nodes.emplace_back();
        return &(nodes[nodes_used++] = node);
    }
};
